// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/problem"

	// The types that a typed_config may hold must be linked in to be decoded.
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/health_check/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
)

// decode reads a bootstrap. Values that cannot be decoded are reported and left out, so that the rest of the file is still checked. It returns nil
// when nothing could be read.
func decode(p *problem.List, name string, data []byte, change ...Option) *bootstrapv3.Bootstrap {
	root := readTree(p, name, data, aBootstrap)
	if root == nil {
		return nil
	}
	bootstrap := &bootstrapv3.Bootstrap{}
	respell(bootstrap.ProtoReflect().Descriptor(), root)
	err := decodeTree(root, bootstrap)
	if err == nil {
		return bootstrap
	}

	// protojson stops at the first problem and tells a position in the JSON
	// text. Look for the reasons in the tree, where they have paths.
	var o options
	for _, c := range change {
		c(&o)
	}
	(&explainer{p: p, options: o, control: controlOf(root)}).message(bootstrap.ProtoReflect().Descriptor(), root, "", false)
	bootstrap = &bootstrapv3.Bootstrap{}
	if decodeTree(root, bootstrap) != nil || len(p.All()) == 0 {
		p.Add("", "%s", reason(err))
		return nil
	}
	return bootstrap
}

// decodeTree decodes a message from a tree that respell has seen.
func decodeTree(tree any, m proto.Message) error {
	text, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	return protojson.Unmarshal(text, m)
}

// What a document has to be.
const (
	aBootstrap = "expected an Envoy v3 bootstrap: a mapping with static_resources"
	aResponse  = "expected a DiscoveryResponse: a mapping with resources, which may be []"
)

// isEmpty is said of a document without a value: of 0 bytes, of comments, "---" or null. What wrote it has failed more often than not: a template that
// rendered nothing, a full disk. Envoy refuses it, too.
const isEmpty = "empty: "

// readTree reads the one object that a file of that name holds, which has to be what expected says, in the format that its name tells. It returns nil
// when that is not what data holds. Envoy takes a file for YAML if its name ends in .yaml or .yml, and for JSON otherwise; XLB takes one with another
// end, as a pipe, for what it is.
func readTree(p *problem.List, name string, data []byte, expected string) map[string]any {
	read := yamlTree
	if isJSON(name, data) {
		read = jsonTree
	}
	tree, ok := read(p, data)
	if !ok {
		return nil
	}
	root, isObject := tree.(map[string]any)
	switch {
	case tree == nil:
		p.Add("", "%s", isEmpty+expected)
	case !isObject:
		p.Add("", "%s", expected)
	}
	return root
}

func isJSON(name string, data []byte) bool {
	switch ascii.Lower(filepath.Ext(name)) {
	case ".json":
		return true
	case ".yaml", ".yml":
		return false
	}
	return json.Valid(data)
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?(line \d+): (.*)$`)

// addYAMLError reports a YAML error under its line.
func addYAMLError(p *problem.List, err error) {
	m := withoutValues(err.Error())
	if parts := yamlLine.FindStringSubmatch(m); parts != nil {
		p.Add(parts[1], "not valid YAML: %s", parts[2])
		return
	}
	p.Add("", "not valid YAML: %s", strings.TrimPrefix(m, "yaml: "))
}

var (
	protoPrefix   = regexp.MustCompile(`^proto:[\s\x{a0}]*`)
	protoPosition = regexp.MustCompile(`^(?:syntax error )?\(line \d+:\d+\): `)
)

// reason cuts protojson's prefix off, which differs from build to build, and
// the position, which belongs to the intermediate JSON text.
func reason(err error) string {
	return withoutValues(protoPosition.ReplaceAllString(protoPrefix.ReplaceAllString(err.Error(), ""), ""))
}

var quoted = regexp.MustCompile("(?s)`[^`]*`|'[^']*'|\"(?:\\\\.|[^\"\\\\])*\"")

// withoutValues is what a decoder says without what it quotes, other than names: that may be a private key.
func withoutValues(message string) string {
	return quoted.ReplaceAllStringFunc(message, func(q string) string {
		if isName(q[1 : len(q)-1]) {
			return q
		}
		return q[:1] + "..." + q[:1]
	})
}

// fieldName is what a field may be called, however it is misspelt. A line of a key in PEM is longer.
var fieldName = regexp.MustCompile(`^[-A-Za-z0-9_.@$ ]{1,48}$`)

func isName(text string) bool { return fieldName.MatchString(text) }
