{{- /* The paths of all booleans, as keys of a map: rendered by test.sh in a chart of its own. */ -}}
{{- define "booleans" -}}
{{- $path := index . 1 -}}
{{- range $key, $is := index . 0 -}}
{{- if kindIs "map" $is -}}
{{- include "booleans" (list $is (print $path $key ".")) -}}
{{- else if eq $is "boolean" }}
{{ print $path $key }}: boolean
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "booleans" (list (.Files.Get "keys.yaml" | fromYaml) "") }}
