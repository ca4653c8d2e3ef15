{{/* Helm's usual labels, in addition to the labels of the manifests. */}}
{{- define "nonet.labels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/*
Objects of a file in deploy/controllers or deploy/components, changed as the overlays do: they are in the namespace of the release,
and names of cluster-scoped objects end in this namespace instead of `.kube-system`. Takes the root context, the path of a file and
optional `labels` to add. For a file of a controller, also its name as `controller` and the `components` that change its objects.
*/}}
{{- define "nonet.objects" -}}
{{- $root := .root }}
{{- $namespace := $root.Release.Namespace }}
{{- $text := $root.Files.Get .path }}
{{- if not $text }}{{ fail (printf "the chart lacks %s" .path) }}{{ end }}
{{- $text = $text | replace ".kube-system\n" (printf ".%s\n" $namespace) | replace "namespace: kube-system\n" (printf "namespace: %s\n" $namespace) }}
{{- range splitList "\n---\n" $text }}
{{- $object := fromYaml . }}
{{- range $.components }}{{ include "nonet.component" (dict "root" $root "component" . "object" $object) }}{{ end }}
{{- include "nonet.values" (dict "root" $root "controller" $.controller "object" $object) }}
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

{{/*
Changes an object by the patches of a kustomization, such as components/ha, as kustomize does. Takes root, `component` and `object`.
A patch is a file that is merged, or a list of operations.
*/}}
{{- define "nonet.component" -}}
{{- $object := .object }}
{{- $directory := printf "files/%s" .component }}
{{- range (.root.Files.Get (printf "%s/kustomization.yaml" $directory) | fromYaml).patches }}
{{- $matches := and (regexMatch (printf "^(%s)$" .target.kind) $object.kind) (regexMatch (printf "^(%s)$" (.target.name | default ".*")) $object.metadata.name) }}
{{- range splitList "," (.target.labelSelector | default "") }}
{{- if and . (ne (get $object.metadata.labels (splitList "=" . | first)) (splitList "=" . | last)) }}{{ $matches = false }}{{ end }}
{{- end }}
{{- if and $matches .path }}
{{- $patch := $.root.Files.Get (printf "%s/%s" $directory .path) | fromYaml }}
{{- $container := merge (first $object.spec.template.spec.containers) (first $patch.spec.template.spec.containers) }}
{{- $_ := merge $object $patch }}
{{- $_ := set $object.spec.template.spec "containers" (list $container) }}
{{- else if $matches }}
{{- range fromYamlArray .patch }}{{ include "nonet.operation" (dict "object" $object "operation" .) }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Does an operation of a JSON patch (RFC 6902). Of lists, it supports additions at the beginning and at the end. */}}
{{- define "nonet.operation" -}}
{{- $path := splitList "/" .operation.path | rest }}
{{- $place := .object }}{{ $parent := dict }}{{ $key := "" }}
{{- range initial $path }}
{{- if kindIs "map" $place }}{{ $parent = $place }}{{ $key = . }}{{ $place = get $place . }}{{ else }}{{ $place = index $place (int .) }}{{ end }}
{{- end }}
{{- if eq .operation.op "remove" }}{{ $_ := unset $place (last $path) }}
{{- else if kindIs "map" $place }}{{ $_ := set $place (last $path) .operation.value }}
{{- else if eq (last $path) "-" }}{{ $_ := set $parent $key (append $place .operation.value) }}
{{- else if eq (last $path) "0" }}{{ $_ := set $parent $key (prepend $place .operation.value) }}
{{- else }}{{ fail (printf "the chart cannot patch %s" .operation.path) }}
{{- end }}
{{- end }}

{{/* Changes an object by the values. Takes root, `object` and the name of its controller. */}}
{{- define "nonet.values" -}}
{{- $values := .root.Values }}
{{- if eq .object.kind "NetworkPolicy" }}
{{- range .object.spec.ingress }}{{ range .from }}
{{- $_ := set .namespaceSelector.matchLabels "kubernetes.io/metadata.name" $values.monitoring.namespace }}
{{- end }}{{ end }}
{{- else if eq .object.kind "PodMonitor" }}
{{- with $values.monitoring.interval }}{{ range $.object.spec.podMetricsEndpoints }}{{ $_ := set . "interval" $values.monitoring.interval }}{{ end }}{{ end }}
{{- else if eq .object.kind "Deployment" }}
{{- $own := get $values.controllers .controller }}
{{- $image := include "nonet.image" (dict "root" .root "name" .controller) | fromYaml }}
{{- $spec := .object.spec }}{{ $template := $spec.template }}{{ $pod := $template.spec }}{{ $container := first $pod.containers }}
{{- $_ := set .object.metadata.labels "app.kubernetes.io/version" $image.version }}
{{- $_ := set $spec "replicas" (include "nonet.replicas" . | int) }}
{{- $_ := merge $template.metadata.labels ($values.podLabels | default dict) }}
{{- with $values.podAnnotations }}{{ $_ := set $template.metadata "annotations" . }}{{ end }}
{{- with $values.priorityClassName }}{{ $_ := set $pod "priorityClassName" . }}{{ end }}
{{- $_ := set $pod "nodeSelector" (merge (dict) ($values.nodeSelector | default dict) $pod.nodeSelector) }}
{{- range $kind, $rules := $values.affinity }}{{ $_ := set $pod.affinity $kind $rules }}{{ end }}
{{- $_ := set $pod "tolerations" (concat $pod.tolerations ($values.tolerations | default list)) }}
{{- $constraints := list }}{{ $replicas := dict "labelSelector" $spec.selector "matchLabelKeys" (list "pod-template-hash") }}
{{- range $values.topologySpreadConstraints }}
{{- if hasKey . "labelSelector" }}{{ $constraints = append $constraints . }}
{{- else }}{{ $constraints = append $constraints (merge (dict) . $replicas) }}
{{- end }}
{{- end }}
{{- with $constraints }}{{ $_ := set $pod "topologySpreadConstraints" . }}{{ end }}
{{- $secrets := list }}
{{- range $values.image.pullSecrets }}{{ $secrets = append $secrets (dict "name" .) }}{{ end }}
{{- with $secrets }}{{ $_ := set $pod "imagePullSecrets" . }}{{ end }}
{{- $_ := set $container "image" $image.image }}
{{- with $values.image.pullPolicy }}{{ $_ := set $container "imagePullPolicy" . }}{{ end }}
{{- with $own.resources }}{{ $_ := set $container "resources" . }}{{ end }}
{{- $arguments := list }}
{{- range $container.args }}
{{- if not (hasPrefix "--probation=" .) }}{{ $arguments = append $arguments . }}
{{- else if $values.probation }}{{ $arguments = append $arguments (printf "--probation=%s" $values.probation) }}
{{- end }}
{{- end }}
{{- $_ := set $container "args" (concat $arguments ($own.flags | default list)) }}
{{- end }}
{{- end }}

{{/* Number of replicas of a controller. Takes root and `controller`. */}}
{{- define "nonet.replicas" -}}
{{- $replicas := (get .root.Values.controllers .controller).replicas }}
{{- if kindIs "invalid" $replicas }}{{ ternary 2 1 .root.Values.ha }}{{ else }}{{ int $replicas }}{{ end }}
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
