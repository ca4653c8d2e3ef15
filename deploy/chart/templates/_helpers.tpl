{{/* Helm's usual labels, in addition to the labels of the manifests. */}}
{{- define "nonet.labels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/*
Objects of a file in deploy/controllers or deploy/components, changed as the overlays do: they are in the namespace of the release,
and names of cluster-scoped objects end in this namespace instead of `.kube-system`. Takes the root context, the path of a file and
optional `labels` to add.
*/}}
{{- define "nonet.objects" -}}
{{- $root := .root }}
{{- $namespace := $root.Release.Namespace }}
{{- $text := $root.Files.Get .path }}
{{- if not $text }}{{ fail (printf "the chart lacks %s" .path) }}{{ end }}
{{- $text = $text | replace ".kube-system\n" (printf ".%s\n" $namespace) | replace "namespace: kube-system\n" (printf "namespace: %s\n" $namespace) }}
{{- range splitList "\n---\n" $text }}
{{- $object := fromYaml . }}
{{- if not (has $object.kind (list "ClusterRole" "ClusterRoleBinding" "FlowSchema")) }}
{{- $_ := set $object.metadata "namespace" $namespace }}
{{- end }}
{{- range $object.subjects }}{{ $_ := set . "namespace" $namespace }}{{ end }}
{{- $labels := merge (dict) (include "nonet.labels" $root | fromYaml) ($.labels | default dict) ($object.metadata.labels | default dict) }}
{{- $_ := set $object.metadata "labels" $labels }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}

{{/* Image of a controller by the values, by default as deploy/images/set has set it. Takes root and name, and returns YAML. */}}
{{- define "nonet.image" -}}
{{- $values := .root.Values }}
{{- $name := .name }}
{{- $own := (index $values.controllers $name).image }}
{{- $set := dict }}
{{- range (.root.Files.Get "files/components/images/kustomization.yaml" | fromYaml).images }}
{{- if eq .name (printf "registry.invalid/nonet/%s" $name) }}{{ $set = . }}{{ end }}
{{- end }}
{{- $repository := $own.repository | default (ternary (printf "%s/%s" $values.image.registry $name) $set.newName (ne $values.image.registry "")) }}
{{- $tag := $own.tag | default $values.image.tag | default $set.newTag }}
{{- $digest := $own.digest }}
{{- if not (or $digest $own.repository $own.tag $values.image.registry $values.image.tag) }}{{ $digest = $set.digest }}{{ end }}
{{- if and $set.digest $own.tag (not $digest) }}
{{- fail (printf "controllers.%s.image.tag is %s, without a digest. The images of this chart are pinned by digest: set controllers.%s.image.digest, too, to `none` if the image shall not be pinned." $name $own.tag $name) }}
{{- end }}
{{- if eq (default "" $digest) "none" }}{{ $digest = "" }}{{ end }}
image: {{ printf "%s:%s%s" $repository $tag (ternary (printf "@%s" $digest) "" (not (empty $digest))) }}
version: {{ $tag | trunc 63 | trimSuffix "." | trimSuffix "-" | trimSuffix "_" | quote }}
{{- end }}

{{/* Names of the enabled controllers. */}}
{{- define "nonet.enabled" -}}
{{- range $name, $controller := .Values.controllers }}{{ if $controller.enabled }}{{ $name }} {{ end }}{{ end }}
{{- end }}
