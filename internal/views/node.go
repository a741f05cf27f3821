// SPDX-License-Identifier: Apache-2.0

package views

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/config/document"
	"github.com/xlb-project/xlb/internal/config/values"
	"github.com/xlb-project/xlb/internal/problem"
)

// nodeText is who a view is to a control plane, with values to be replaced. What is empty the bootstrap says.
type nodeText struct {
	id, cluster template
	metadata    map[string]any
}

const hostnameValue = "hostname"

// constant is a value that all views have.
func constant(name string) string {
	if name == hostnameValue {
		return values.Hostname()
	}
	return ""
}

// of replaces the values. It is the zero value where there is no node.
func (n *nodeText) of(value func(name string) string) config.NodeName {
	if n == nil {
		return config.NodeName{}
	}
	out := config.NodeName{ID: n.id.with(value), Cluster: n.cluster.with(value)}
	if n.metadata != nil {
		out.Metadata = &structpb.Struct{}
		// node has found that it can be read so.
		_ = document.Decode(replaced(n.metadata, value), out.Metadata)
	}
	return out
}

// replaced is a value of JSON with all text in it replaced, but for names of fields.
func replaced(in any, value func(name string) string) any {
	switch in := in.(type) {
	case string:
		return template(in).with(value)
	case []any:
		out := make([]any, len(in))
		for i := range in {
			out[i] = replaced(in[i], value)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(in))
		for name := range in {
			out[name] = replaced(in[name], value)
		}
		return out
	}
	return in
}

// node is that of a view with these values. nil: there is no such field, or what there is has been reported.
func node(f fields, forEach []string) *nodeText {
	if !f.has("node") {
		return nil
	}
	names := append([]string{hostnameValue}, forEach...)
	in := mapping(f.problems, f.at("node"), f.values["node"], "id", "cluster", "metadata")
	if in.values != nil && len(in.values) == 0 {
		f.add("node", "says nothing: want id, cluster or metadata, or remove it")
	}
	return &nodeText{templateOf(in, "id", names), templateOf(in, "cluster", names), metadata(in, names)}
}

func templateOf(f fields, name string, names []string) template {
	text, ok := f.text(name, "want the node's "+name+", as in shop-{"+names[len(names)-1]+"}")
	if !ok {
		return ""
	}
	if err := template(text).check(names); err != nil {
		f.add(name, "%s", err)
	}
	return template(text)
}

func metadata(f fields, names []string) map[string]any {
	if !f.has("metadata") {
		return nil
	}
	values, ok := f.values["metadata"].(map[string]any)
	if !ok {
		f.add("metadata", "want a mapping, as in {NAMESPACE: shop}")
		return nil
	}
	checkTexts(f.problems, f.at("metadata"), values, names)
	if err := document.Decode(values, &structpb.Struct{}); err != nil {
		f.add("metadata", "%s", err)
	}
	return values
}

// checkTexts refuses text of metadata in which braces stand for what the view does not have.
func checkTexts(p *problem.List, path string, value any, names []string) {
	switch value := value.(type) {
	case string:
		if err := template(value).check(names); err != nil {
			p.Add(path, "%s", err)
		}
	case []any:
		for i := range value {
			checkTexts(p, problem.At(path, i), value[i], names)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			at := path + "[...]"
			if document.IsName(name) {
				at = problem.Field(path, name)
			}
			checkTexts(p, at, value[name], names)
		}
	}
}
