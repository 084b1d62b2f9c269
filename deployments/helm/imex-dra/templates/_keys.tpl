{{/* Compares the values with keys.yaml. Returns a JSON object with `unused` (path and reason of each key that has no
effect) and `wrong` (a sentence for each unknown key, and for each required key that is null). Fails for a value that
should be a boolean and is not. */}}
{{- define "imex-dra.keys" -}}
{{- $known := .Files.Get "keys.yaml" | fromYaml -}}
{{- $found := dict "unused" list "wrong" list "paths" list -}}
{{- include "imex-dra.knownPaths" (list $known "" $found) -}}
{{- include "imex-dra.walkKeys" (list $known .Values "" $found) -}}
{{- omit $found "paths" | toJson -}}
{{- end }}

{{/* (list KNOWN PREFIX FOUND): adds every path of KNOWN to FOUND.paths. */}}
{{- /* req: CHART-6 */}}
{{- define "imex-dra.knownPaths" -}}
{{- $prefix := index . 1 -}}
{{- $found := index . 2 -}}
{{- range $key, $is := index . 0 -}}
{{- if not (or (eq $key "*") (and (kindIs "string" $is) (hasPrefix "unused: " (toString $is)))) -}}
{{- $_ := set $found "paths" (append $found.paths (print $prefix $key)) -}}
{{- if kindIs "map" $is -}}
{{- include "imex-dra.knownPaths" (list $is (print $prefix $key ".") $found) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* (list KNOWN VALUES PREFIX FOUND) */}}
{{- define "imex-dra.walkKeys" -}}
{{- $known := index . 0 -}}
{{- $values := index . 1 -}}
{{- $prefix := index . 2 -}}
{{- $found := index . 3 -}}
{{- range $key, $value := $values -}}
{{- $path := print $prefix $key -}}
{{- $is := default (get $known "*") (get $known $key) -}}
{{- if and (eq $prefix "") (has $key (list "global" "enabled" "tags")) -}}
{{- /* Keys that Helm passes from a parent chart. */ -}}
{{- else if kindIs "map" $is -}}
{{- if not (kindIs "map" $value) -}}
{{- fail (printf "%s is %s, but must be a map with the keys %s" $path (toJson $value) (keys $is | sortAlpha | join ", ")) -}}
{{- end -}}
{{- include "imex-dra.walkKeys" (list $is $value (print $path ".") $found) -}}
{{- else if hasPrefix "unused: " (toString $is) -}}
{{- $_ := set $found "unused" (append $found.unused (printf "%s (%s)" $path (trimPrefix "unused: " $is))) -}}
{{- else if eq $is "boolean" -}}
{{- $_ := include "imex-dra.bool" (list $path $value) -}}
{{- else if not $is -}}
{{- $_ := set $found "wrong" (append $found.wrong (include "imex-dra.unknownKey" (list $known $key $prefix $found.paths))) -}}
{{- end -}}
{{- end -}}
{{- range $key, $is := $known -}}
{{- if or (kindIs "map" $is) (has (toString $is) (list "boolean" "number")) -}}
{{- if kindIs "invalid" (index $values $key) -}}
{{- $_ := set $found "wrong" (append $found.wrong (printf "%s%s is null: remove the line to use the default" $prefix $key)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* (list KNOWN KEY PREFIX PATHS): the message for an unknown key. Suggests a sibling key with similar
letters or a key of the same name elsewhere; otherwise lists all siblings. */}}
{{- /* req: CHART-7 */}}
{{- define "imex-dra.unknownKey" -}}
{{- $known := index . 0 -}}
{{- $key := index . 1 -}}
{{- $prefix := index . 2 -}}
{{- $best := dict "path" "" "score" 49 -}}
{{- range $name := keys $known | sortAlpha -}}
{{- $score := include "imex-dra.alike" (list $key $name) | int -}}
{{- if gt $score (int $best.score) -}}
{{- $_ := set $best "path" (print $prefix $name) -}}
{{- $_ := set $best "score" $score -}}
{{- end -}}
{{- end -}}
{{- if not $best.path -}}
{{- range index . 3 -}}
{{- if eq (lower $key) (splitList "." . | last | lower) -}}
{{- $_ := set $best "path" . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $best.path -}}
{{- printf "unknown value %s%s: did you mean %s?" $prefix $key $best.path -}}
{{- else -}}
{{- $here := list -}}
{{- range $name := keys $known | sortAlpha -}}
{{- if has (print $prefix $name) (index $ 3) -}}{{- $here = append $here $name -}}{{- end -}}
{{- end -}}
{{- printf "unknown value %s%s: %s has %s" $prefix $key (trimSuffix "." $prefix | default "the chart") (join ", " $here) -}}
{{- end -}}
{{- end }}

{{/* (list A B): the share of adjacent letter pairs that both words have, in percent. */}}
{{- define "imex-dra.alike" -}}
{{- $a := index . 0 | lower -}}
{{- $b := index . 1 | lower -}}
{{- $shared := 0 -}}
{{- range $i := until (max 0 (sub (len $a) 1) | int) -}}
{{- if contains (substr $i (int (add $i 2)) $a) $b -}}
{{- $shared = add $shared 1 -}}
{{- end -}}
{{- end -}}
{{- div (mul 200 $shared) (max 1 (sub (add (len $a) (len $b)) 2)) -}}
{{- end }}

{{/* (list . PATH): "true" or "": the boolean value at PATH. */}}
{{- define "imex-dra.on" -}}
{{- $value := (index . 0).Values -}}
{{- range splitList "." (index . 1) -}}
{{- $value = get $value . -}}
{{- end -}}
{{- include "imex-dra.bool" (list (index . 1) $value) -}}
{{- end }}
