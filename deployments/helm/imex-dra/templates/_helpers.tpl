{{- define "imex-dra.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* req: CHART-8 */}}
{{- define "imex-dra.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "imex-dra.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride }}
{{- end }}

{{- define "imex-dra.image" -}}
{{ .Values.image.repository }}:{{ default (printf "v%s" .Chart.AppVersion) .Values.image.tag }}
{{- end }}

{{- define "imex-dra.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "imex-dra.podLabels" . }}
{{- end }}

{{- define "imex-dra.podLabels" -}}
app.kubernetes.io/name: {{ include "imex-dra.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* (list . "controller"|"kubelet-plugin"): labels that select one component's pods. */}}
{{- define "imex-dra.selectorLabels" -}}
{{- $root := index . 0 -}}
{{ include "imex-dra.podLabels" $root }}
{{ include "imex-dra.name" $root }}-component: {{ index . 1 }}
{{- end }}

{{/* "true" or "": whether the chart installs the driver compute-domain.nvidia.com, and whether gpu.nvidia.com. */}}
{{- define "imex-dra.domains" -}}
{{- include "imex-dra.on" (list . "resources.computeDomains.enabled") -}}
{{- end }}

{{- define "imex-dra.gpus" -}}
{{- include "imex-dra.on" (list . "resources.gpus.enabled") -}}
{{- end }}

{{/* "true" or "": whether hosts manage IMEX, by either name of the gate (validation.yaml refuses two different values), and
whether the driver does. */}}
{{- define "imex-dra.hostManaged" -}}
{{- $gates := .Values.featureGates | default dict -}}
{{- include "imex-dra.alphaGate" (list $gates (ternary "HostManagedIMEXDaemon" "HostManagedIMEX" (hasKey $gates "HostManagedIMEXDaemon"))) -}}
{{- end }}

{{- define "imex-dra.driverManaged" -}}
{{- if and (include "imex-dra.domains" .) (not (include "imex-dra.hostManaged" .)) -}}
true
{{- end -}}
{{- end }}

{{/* "true" or "": whether each ComputeDomain has its own channel. */}}
{{- define "imex-dra.isolates" -}}
{{- if and (include "imex-dra.domains" .) (or (include "imex-dra.driverManaged" .) (eq (toString .Values.resources.computeDomains.imex.isolation) "channel")) -}}
true
{{- end -}}
{{- end }}

{{/* The DaemonSet of the IMEX daemons. */}}
{{- define "imex-dra.imexDaemon" -}}
{{ include "imex-dra.name" . }}-imex-daemon
{{- end }}

{{/* off, warn or enforce. Unquoted, off is false in YAML. */}}
{{- define "imex-dra.nriGuard" -}}
{{ .Values.nriGuard.mode | default "off" }}
{{- end }}

{{/* (list . "controller"|"kubeletplugin"): the service account of a component. */}}
{{- define "imex-dra.serviceAccount" -}}
{{- $root := index . 0 -}}
{{- $base := default (printf "%s-service-account" (include "imex-dra.fullname" $root)) $root.Values.serviceAccount.name -}}
{{ $base }}-{{ index . 1 }}
{{- end }}

{{/* "true" or "": whether the plugin is a host service, and whether that uses kubelet's identity. */}}
{{- define "imex-dra.hostService" -}}
{{- include "imex-dra.on" (list . "kubeletPlugin.hostService.enabled") -}}
{{- end }}

{{- define "imex-dra.asKubelet" -}}
{{- if and (include "imex-dra.hostService" .) (ne (toString .Values.kubeletPlugin.hostService.identity) "serviceAccount") -}}
true
{{- end -}}
{{- end }}

{{/* The components that run as pods, each with its key in the values, as a JSON object. */}}
{{- define "imex-dra.components" -}}
{{- $components := dict -}}
{{- if include "imex-dra.domains" . -}}{{- $_ := set $components "controller" "controller" -}}{{- end -}}
{{- if not (include "imex-dra.hostService" .) -}}{{- $_ := set $components "kubelet-plugin" "kubeletPlugin" -}}{{- end -}}
{{- if include "imex-dra.driverManaged" . -}}{{- $_ := set $components "imex-daemon" "imexDaemon" -}}{{- end -}}
{{- toJson $components -}}
{{- end }}

{{- define "imex-dra.kubeletRegistry" -}}
{{ default (printf "%s/plugins_registry" (trimSuffix "/" .Values.kubeletPlugin.kubeletRoot)) .Values.kubeletPlugin.kubeletRegistrarDirectoryPath }}
{{- end }}

{{- define "imex-dra.kubeletPlugins" -}}
{{ default (printf "%s/plugins" (trimSuffix "/" .Values.kubeletPlugin.kubeletRoot)) .Values.kubeletPlugin.kubeletPluginsDirectoryPath }}
{{- end }}

{{/* (list NAME VALUE): "true" or "", for booleans and for the strings that the
programs read as booleans. The strings "false" and "" are false. */}}
{{- /* req: CHART-4 */}}
{{- define "imex-dra.bool" -}}
{{- $value := index . 1 | toString -}}
{{- if has $value (list "true" "True" "TRUE" "t" "T" "1") -}}
true
{{- else if not (has $value (list "" "false" "False" "FALSE" "f" "F" "0")) -}}
{{- fail (printf "%s=%s is not a boolean: set it to true or false" (index . 0) $value) -}}
{{- end -}}
{{- end }}

{{/* "true" or "": whether group claims are enabled, and whether nodes are labelled with their clique. */}}
{{- define "imex-dra.groupClaims" -}}
{{- if include "imex-dra.domains" . -}}
{{- include "imex-dra.bool" (list "resources.computeDomains.imex.groupClaims" (.Values.resources.computeDomains.imex.groupClaims | default false)) -}}
{{- end -}}
{{- end }}

{{- define "imex-dra.cliqueLabel" -}}
{{- include "imex-dra.bool" (list "kubeletPlugin.containers.computeDomains.gpuCliqueLabelEnabled" (.Values.kubeletPlugin.containers.computeDomains.gpuCliqueLabelEnabled | default false)) -}}
{{- end }}

{{/* Environment variables of controller and plugins. */}}
{{- /* req: CHART-3 */}}
{{- define "imex-dra.commonEnv" -}}
- name: V
  value: {{ .Values.logVerbosity | toString | quote }}
- name: LOGGING_FORMAT
  value: {{ .Values.logFormat | quote }}
- name: NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: FEATURE_GATES
  value: {{ include "imex-dra.featureGates" . | quote }}
{{- end }}

{{/* Environment variables of all programs that serve ComputeDomains. */}}
{{- define "imex-dra.domainEnv" -}}
{{ include "imex-dra.commonEnv" . }}
{{- with .Values.resources.computeDomains.imex }}
{{- if .mode }}
- name: IMEX_MODE
  value: {{ .mode | quote }}
{{- end }}
{{- if .isolation }}
- name: IMEX_ISOLATION
  value: {{ .isolation | quote }}
{{- end }}
{{- if .sharing }}
- name: IMEX_SHARING
  value: {{ .sharing | quote }}
{{- end }}
{{- if .slots }}
- name: IMEX_SLOTS
  value: {{ .slots | toString | quote }}
{{- end }}
{{- if .channelCount }}
- name: IMEX_CHANNEL_COUNT
  value: {{ .channelCount | toString | quote }}
{{- end }}
{{- if include "imex-dra.groupClaims" $ }}
- name: IMEX_GROUP_CLAIMS
  value: "true"
{{- end }}
{{- if .hostSocketPath }}
- name: IMEX_HOST_SOCKET_PATH
  value: {{ .hostSocketPath | quote }}
{{- end }}
{{- if .withoutClique }}
- name: IMEX_WITHOUT_CLIQUE
  value: {{ .withoutClique | quote }}
{{- end }}
{{- if .degradedFabric }}
- name: IMEX_DEGRADED_FABRIC
  value: {{ .degradedFabric | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* The feature gates that the programs accept: those of NVIDIA's chart, and this driver's own. */}}
{{- define "imex-dra.knownGates" -}}
[AllAlpha, AllBeta, ComputeDomainCliques, ConsumableShares, ContextualLogging,
CrashOnNVLinkFabricErrors, DRAListTypeAttributes, DeviceMetadata, DynamicMIG,
FabricManagerPartitioning, HostManagedIMEX, HostManagedIMEXDaemon,
IMEXDaemonsWithDNSNames, LoggingAlphaOptions, LoggingBetaOptions, MPSSupport,
NVMLDeviceHealthCheck, PassthroughSupport, TimeSlicingSettings]
{{- end }}

{{/* "true" or "": whether claims share GPUs. */}}
{{- define "imex-dra.sharesGpus" -}}
{{- if not (has (toString .Values.consumableShares) (list "" "<nil>" "disabled")) -}}true{{- end -}}
{{- end }}

{{/* The gates of GPUs that NVIDIA's driver has and this one does not. */}}
{{- define "imex-dra.gpuGatesWithoutEffect" -}}
[DRAListTypeAttributes, DeviceMetadata, DynamicMIG, FabricManagerPartitioning, PassthroughSupport]
{{- end }}

{{/* (list GATES NAME): "true" or "": the value of a gate that is off by default, or of AllAlpha
if the gate is not set. betaGate does the same for a gate that is on by default, with AllBeta. */}}
{{- define "imex-dra.alphaGate" -}}
{{- $gates := index . 0 -}}
{{- $value := dig (index . 1) (dig "AllAlpha" false $gates) $gates -}}
{{- include "imex-dra.bool" (list (printf "featureGates.%s" (index . 1)) $value) -}}
{{- end }}

{{- define "imex-dra.betaGate" -}}
{{- $gates := index . 0 -}}
{{- $value := dig (index . 1) (dig "AllBeta" true $gates) $gates -}}
{{- include "imex-dra.bool" (list (printf "featureGates.%s" (index . 1)) $value) -}}
{{- end }}

{{- /* req: CHART-1 */}}
{{- define "imex-dra.featureGates" -}}
{{- $gates := list -}}
{{- range $name, $value := .Values.featureGates -}}
{{- $gates = append $gates (printf "%s=%t" $name (eq "true" (include "imex-dra.bool" (list (printf "featureGates.%s" $name) $value)))) -}}
{{- end -}}
{{- join "," $gates -}}
{{- end }}

{{/* (list KEY OURS THEIRS): OURS (YAML text) followed by the user's list. The API server rejects a variable that is
set twice, and both programs must have the same IMEX settings. Unless the user's list sets NVIDIA_VISIBLE_DEVICES, the
pods get no GPUs. */}}
{{- define "imex-dra.env" -}}
{{- $key := index . 0 -}}
{{- $ours := list "IMEX_MODE" "IMEX_ISOLATION" "IMEX_SHARING" "IMEX_SLOTS" "IMEX_CHANNEL_COUNT" "IMEX_GROUP_CLAIMS" "IMEX_HOST_SOCKET_PATH" "IMEX_WITHOUT_CLIQUE" "IMEX_DEGRADED_FABRIC" "GPU_CLIQUE_LABEL_ENABLED" "MAX_NODES_PER_IMEX_DOMAIN" "IMEX_FORCE_AFTER" "IMEX_DAEMONSET" "IMEX_DAEMON_SELECTOR" "IMEXD_DIR" -}}
{{- range fromYamlArray (index . 1) }}{{ $ours = append $ours .name }}{{ end -}}
{{- $devices := false -}}
{{- range index . 2 -}}
{{- if has .name $ours -}}
{{- fail (printf "%s: %s is set by the chart from another value; set that value instead" $key .name) -}}
{{- end -}}
{{- $devices = or $devices (eq .name "NVIDIA_VISIBLE_DEVICES") -}}
{{- end -}}
{{ index . 1 }}
{{- if not $devices }}
- name: NVIDIA_VISIBLE_DEVICES
  value: void
{{- end }}
{{- with index . 2 }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* (list PORT): the three probes. /livez fails only if a restart can help: a task has died or hangs, or a mounted
directory was removed on the host. With a missing or broken driver, the plugin is not ready but is never restarted. */}}
{{- define "imex-dra.probes" -}}
{{- if gt (int (index . 0)) 0 -}}
startupProbe:
  httpGet:
    path: /livez
    port: {{ index . 0 }}
  periodSeconds: 1
  failureThreshold: 60
  timeoutSeconds: 10
livenessProbe:
  httpGet:
    path: /livez
    port: {{ index . 0 }}
  periodSeconds: 10
  failureThreshold: 3
  timeoutSeconds: 10
readinessProbe:
  httpGet:
    path: /readyz
    port: {{ index . 0 }}
  periodSeconds: 5
  failureThreshold: 1
  timeoutSeconds: 10
{{- end }}
{{- end }}

{{/* (list $ VALUES): the ports of the metrics of controller, kubeletPlugin or imexDaemon, as a JSON object: from the name
that a PodMonitor selects to the number. */}}
{{- define "imex-dra.metricsPorts" -}}
{{- $root := index . 0 -}}
{{- $metrics := (get $root.Values (index . 1)).metrics -}}
{{- $endpoints := dict "metrics" $metrics.httpEndpoint -}}
{{- if eq (index . 1) "kubeletPlugin" -}}
{{- $endpoints = dict "metrics" (and (include "imex-dra.domains" $root) $metrics.computeDomainHttpEndpoint) "gpu-metrics" (and (include "imex-dra.gpus" $root) $metrics.gpuHttpEndpoint) -}}
{{- end -}}
{{- $ports := dict -}}
{{- if include "imex-dra.on" (list $root (print (index . 1) ".metrics.enabled")) -}}
{{- range $name, $endpoint := $endpoints -}}
{{- with $endpoint -}}{{- $_ := set $ports $name (splitList ":" . | last) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $ports -}}
{{- end }}

{{/* (list $ VALUES NAME): the port of that name of a container. */}}
{{- define "imex-dra.metricsPort" -}}
{{- $name := index . 2 -}}
{{- with get (include "imex-dra.metricsPorts" . | fromJson) $name -}}
ports:
  - name: {{ $name }}
    containerPort: {{ . }}
{{- end }}
{{- end }}

{{/* The first five words of a list. */}}
{{- define "imex-dra.some" -}}
{{- slice . 0 (min 5 (len .)) | join ", " -}}{{- if gt (len .) 5 -}}, ...{{- end -}}
{{- end }}

{{/* The names of the drivers that the chart installs, as a JSON array. */}}
{{- define "imex-dra.drivers" -}}
{{- $drivers := list -}}
{{- if include "imex-dra.domains" . -}}{{- $drivers = append $drivers "compute-domain.nvidia.com" -}}{{- end -}}
{{- if include "imex-dra.gpus" . -}}{{- $drivers = append $drivers "gpu.nvidia.com" -}}{{- end -}}
{{- toJson $drivers -}}
{{- end }}

{{/* Namespaces with objects of the driver-managed mode: the release's own, and the Go driver's
ADDITIONAL_NAMESPACES. As a JSON array. */}}
{{- define "imex-dra.driverNamespaces" -}}
{{- $namespaces := list (include "imex-dra.namespace" .) -}}
{{- range .Values.controller.containers.computeDomain.env -}}
{{- if eq .name "ADDITIONAL_NAMESPACES" -}}
{{- range splitList "," (.value | default "") -}}
{{- with trim . }}{{ $namespaces = append $namespaces . }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $namespaces | uniq | toJson -}}
{{- end }}
