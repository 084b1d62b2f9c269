{{- /* values.schema.json, made of the chart's keys.yaml: rendered by test.sh in a chart of its own. Which
keys there are is not in it: templates/_keys.tpl refuses the others in better words than Helm would. Nor are
booleans: the strings "true" and "false" are two, and templates say what is none. */ -}}
{{- define "schema.of" -}}
{{- $properties := dict -}}
{{- range $key, $is := index . 0 -}}
{{- if ne $key "*" -}}
{{- $_ := set $properties $key (include "schema.one" (list $is) | fromJson) -}}
{{- end -}}
{{- end -}}
{{- dict "type" "object" "properties" $properties | toJson -}}
{{- end -}}

{{- define "schema.one" -}}
{{- $is := index . 0 -}}
{{- $types := dict
      "text" (list "string" "null")
      "number" "integer"
      "text or number" (list "string" "integer" "null")
      "text or boolean" (list "string" "boolean" "null")
      "boolean" (list "boolean" "string" "integer" "null")
      "map" (list "object" "null")
      "list" (list "array" "null") -}}
{{- if kindIs "map" $is -}}
{{- include "schema.of" (list $is) -}}
{{- else if hasPrefix "unused: " $is -}}
{{- dict "description" (trimPrefix "unused: " $is | printf "No effect: %s") | toJson -}}
{{- else -}}
{{- dict "type" (required (printf "keys.yaml has the type %q" $is) (get $types $is)) | toJson -}}
{{- end -}}
{{- end -}}

{{- $keys := .Files.Get "keys.yaml" | fromYaml -}}
{{- $schema := include "schema.of" (list $keys) | fromJson -}}
{{- $_ := set $schema "$schema" "http://json-schema.org/draft-07/schema#" -}}
{{ toPrettyJson $schema }}
