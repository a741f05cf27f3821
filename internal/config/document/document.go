// SPDX-License-Identifier: Apache-2.0

// Package document reads YAML and JSON as Envoy does, into a tree of maps, lists and scalars, and makes messages of trees. A tree keeps the
// path of each value, so that a problem has a path in place of a position.
package document

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/problem"
)

// Decode decodes a message from a tree that Respell has seen.
func Decode(tree any, m proto.Message) error {
	text, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	return protojson.Unmarshal(text, m)
}

// What a document has to be, the argument expected of Read.
const (
	ExpectBootstrap = "expected an Envoy v3 bootstrap: a mapping with static_resources"
	ExpectResponse  = "expected a DiscoveryResponse: a mapping with resources, which may be []"
)

// isEmpty begins the problem of a document without a value: of 0 bytes, of comments, "---" or null. What wrote it has failed more often than not: a template that
// rendered nothing, a full disk. Envoy refuses it, too.
const isEmpty = "empty: "

// Read reads the one object that a file of that name holds, which has to be what expected says, in the format of its name. It returns nil
// when that is not what data holds. Envoy takes a file for YAML if its name ends in .yaml or .yml, and for JSON otherwise; XLB takes one with another
// end, as a pipe, for what it is.
func Read(p *problem.List, name string, data []byte, expected string) map[string]any {
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

// Reason cuts protojson's prefix off, which differs from build to build, and
// the position, which belongs to the intermediate JSON text.
func Reason(err error) string {
	return withoutValues(protoPosition.ReplaceAllString(protoPrefix.ReplaceAllString(err.Error(), ""), ""))
}

var quoted = regexp.MustCompile("(?s)`[^`]*`|'[^']*'|\"(?:\\\\.|[^\"\\\\])*\"")

// withoutValues is what a decoder says without what it quotes, other than names: that may be a private key.
func withoutValues(message string) string {
	return quoted.ReplaceAllStringFunc(message, func(q string) string {
		if IsName(q[1 : len(q)-1]) {
			return q
		}
		return q[:1] + "..." + q[:1]
	})
}

// fieldName is what a field may be called, however it is misspelt. A line of a key in PEM is longer.
var fieldName = regexp.MustCompile(`^[-A-Za-z0-9_.@$ ]{1,48}$`)

// IsName tells what may be the name of a field, which may be quoted in an error. Anything else may be a secret.
func IsName(text string) bool { return fieldName.MatchString(text) }

// FieldByKey finds a field by either of its two names in JSON.
func FieldByKey(desc protoreflect.MessageDescriptor, key string) protoreflect.FieldDescriptor {
	if fd := desc.Fields().ByJSONName(key); fd != nil {
		return fd
	}
	return desc.Fields().ByTextName(key)
}

// IsWellKnown reports a type of protobuf's own, most of which have a form of their own in JSON.
func IsWellKnown(desc protoreflect.MessageDescriptor) bool {
	return desc.ParentFile().Package() == "google.protobuf"
}

// IsAny reports google.protobuf.Any.
func IsAny(desc protoreflect.MessageDescriptor) bool {
	return desc.FullName() == "google.protobuf.Any"
}
