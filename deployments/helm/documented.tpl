{{- /* The keys that are in keys.yaml or in values.yaml and not in the other, as keys of a map: rendered by test.sh in a chart
of its own. */ -}}
{{- define "compare" -}}
{{- $keys := index . 0 -}}
{{- $values := index . 1 -}}
{{- $path := index . 2 -}}
{{- range $key := concat (keys $keys) (keys $values) | uniq | sortAlpha -}}
{{- $is := get $keys $key -}}
{{- if and (kindIs "map" $is) (kindIs "map" (get $values $key)) -}}
{{- include "compare" (list $is (get $values $key) (print $path $key ".")) -}}
{{- else if not (or (hasPrefix "unused: " (toString $is)) (and (hasKey $keys $key) (hasKey $values $key))) -}}
{{- printf "%s%s: missing\n" $path $key -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "compare" (list (.Files.Get "keys.yaml" | fromYaml) (.Files.Get "default-values.yaml" | fromYaml) "") }}
