// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"
	goyaml "sigs.k8s.io/yaml/goyaml.v2"

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

// decode reads data strictly. Values that cannot be decoded are reported and
// left out, so that the rest of the file is still checked. It returns nil when
// nothing could be read.
func decode(p *problems, name string, data []byte) *bootstrapv3.Bootstrap {
	if !strings.HasSuffix(name, ".json") {
		if data = yamlToJSON(p, data, aBootstrap); data == nil {
			return nil
		}
	}
	bootstrap := &bootstrapv3.Bootstrap{}
	err := protojson.Unmarshal(data, bootstrap)
	if err == nil {
		return bootstrap
	}

	// protojson stops at the first problem and tells a position in the JSON
	// text. Look for the reasons in the tree, where they have paths.
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var tree any
	if decodeErr := decoder.Decode(&tree); decodeErr != nil {
		p.add("", "not JSON: %v", decodeErr)
		return nil
	}
	root, ok := tree.(map[string]any)
	if !ok {
		p.add("", "%s", aBootstrap)
		return nil
	}
	(&explainer{p: p, control: controlOf(root)}).message(bootstrap.ProtoReflect().Descriptor(), root, "", false)

	pruned, marshalErr := json.Marshal(root)
	bootstrap = &bootstrapv3.Bootstrap{}
	if marshalErr != nil || protojson.Unmarshal(pruned, bootstrap) != nil || len(p.list) == 0 {
		p.add("", "%s", reason(err))
		return nil
	}
	return bootstrap
}

// What a document has to be.
const (
	aBootstrap = "expected an Envoy v3 bootstrap: a mapping with static_resources"
	aResponse  = "expected a DiscoveryResponse: a mapping with resources, which may be []"
)

// isEmpty is said of a document without a value: of 0 bytes, of comments, "---" or null. What wrote it has failed more often than not: a template that
// rendered nothing, a full disk. Envoy refuses it, too.
const isEmpty = "empty: "

// yamlToJSON converts exactly one YAML document with a value, which has to be what expected says, refusing duplicate keys. It
// returns nil when that is not what data holds.
func yamlToJSON(p *problems, data []byte, expected string) []byte {
	converted, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		addYAMLError(p, err)
		return nil
	}
	if string(converted) == "null" {
		p.add("", "%s", isEmpty+expected)
		return nil
	}
	if documentMarker.Match(data) && hasSecondDocument(data) {
		p.add("", "more than one YAML document; Envoy reads only the first: keep one")
		return nil
	}
	return converted
}

// documentMarker is what a second document needs; without one the file is not
// read a second time.
var documentMarker = regexp.MustCompile(`(?m)^(---|\.\.\.)`)

// hasSecondDocument tells what the conversion to JSON is silent about.
func hasSecondDocument(data []byte) bool {
	documents := goyaml.NewDecoder(bytes.NewReader(data))
	var ignored any
	return documents.Decode(&ignored) == nil && !errors.Is(documents.Decode(&ignored), io.EOF)
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?(line \d+): (.*)$`)

// addYAMLError reports each message of a YAML error under its line.
func addYAMLError(p *problems, err error) {
	messages := []string{err.Error()}
	var typeErr *goyaml.TypeError
	if errors.As(err, &typeErr) {
		messages = typeErr.Errors
	}
	for _, m := range messages {
		m = withoutValues(m)
		if parts := yamlLine.FindStringSubmatch(m); parts != nil {
			p.add(parts[1], "not valid YAML: %s", parts[2])
			continue
		}
		p.add("", "not valid YAML: %s", strings.TrimPrefix(m, "yaml: "))
	}
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
