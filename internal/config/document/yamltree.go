// SPDX-License-Identifier: Apache-2.0

package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"

	goyaml "go.yaml.in/yaml/v3"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/problem"
)

// yamlTree reads one YAML document as Envoy does, which has rules of its own for what a plain word means (yaml-cpp, and parseYamlNode in Envoy's
// source/common/protobuf/yaml_utility.cc). Objects are map[string]any, lists []any, and a scalar is a string, a bool, nil or, between -2^31 and 2^31-1, a
// json.Number. It reports what cannot be read under its line and returns false.
func yamlTree(p *problem.List, data []byte) (tree any, ok bool) {
	documents := goyaml.NewDecoder(bytes.NewReader(ofVersion11(data)))
	var document goyaml.Node
	switch err := documents.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, true
	case err != nil:
		addYAMLError(p, err)
		return nil, false
	}
	if hasMore(documents) {
		p.Add("", "more than one YAML document; Envoy reads only the first: keep one")
		return nil, false
	}
	r := &yamlReader{p: p, inside: map[*goyaml.Node]bool{}}
	tree = r.node(&document)
	return tree, !r.failed
}

var yamlVersion = regexp.MustCompile(`^%YAML[ \t]+1\.[0-9]`)

// ofVersion11 is a document that says to be of YAML 1.1, as the parser wants it; Envoy does not look at the version.
func ofVersion11(data []byte) []byte {
	version := yamlVersion.Find(data)
	if version == nil {
		return data
	}
	return append(append(version[:len(version)-1:len(version)-1], '1'), data[len(version):]...)
}

// hasMore reports whether anything but an empty document is left, which may be broken.
func hasMore(documents *goyaml.Decoder) bool {
	for {
		var next goyaml.Node
		switch err := documents.Decode(&next); {
		case errors.Is(err, io.EOF):
			return false
		case err != nil, len(next.Content) != 1 || !isNull(next.Content[0]):
			return true
		}
	}
}

// maxAliased is how many nodes aliases may stand for in all. A file that has more is made to fill the memory.
const maxAliased = 400_000

type yamlReader struct {
	p *problem.List
	// inside are the anchors that are being read: an alias to one of them has no end.
	inside map[*goyaml.Node]bool
	// aliases is how many the reader is in, aliased how many nodes they have stood for.
	aliases, aliased int
	failed           bool
}

func (r *yamlReader) node(n *goyaml.Node) any {
	if r.aliased > maxAliased {
		return nil
	}
	if r.aliases > 0 {
		if r.aliased++; r.aliased > maxAliased {
			r.refuse(n, "excessive aliasing; write out what the aliases stand for")
			return nil
		}
	}
	if n.Anchor != "" {
		r.inside[n] = true
		defer delete(r.inside, n)
	}
	switch n.Kind {
	case goyaml.DocumentNode:
		return r.node(n.Content[0])
	case goyaml.AliasNode:
		return r.alias(n)
	case goyaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, one := range n.Content {
			list[i] = r.node(one)
		}
		return list
	case goyaml.MappingNode:
		return r.mapping(n)
	default:
		return scalar(n)
	}
}

func (r *yamlReader) alias(n *goyaml.Node) any {
	if r.inside[n.Alias] {
		r.refuse(n, "anchor %q contains itself", n.Value)
		return nil
	}
	r.aliases++
	defer func() { r.aliases-- }()
	return r.node(n.Alias)
}

// ignored is the tag of keys that Envoy passes over with what they lead to: a place for anchors.
const ignored = "!ignore"

// mapping has keys as they are written: "y" and "1" are names. Envoy knows no merge key: << is one more.
func (r *yamlReader) mapping(n *goyaml.Node) any {
	object := make(map[string]any, len(n.Content)/2)
	for pair := range slices.Chunk(n.Content, 2) {
		key := pair[0]
		if key.Kind == goyaml.AliasNode {
			key = key.Alias
		}
		switch {
		case key.Tag == ignored:
			continue
		case key.Kind != goyaml.ScalarNode:
			r.refuse(pair[0], "a key is a list or a mapping; it has to be a name")
			continue
		}
		name := key.Value
		if isNull(key) {
			name = "null"
		}
		if _, twice := object[name]; twice {
			r.refuse(pair[0], "key %q already set in map", name)
			continue
		}
		object[name] = r.node(pair[1])
	}
	return object
}

func (r *yamlReader) refuse(n *goyaml.Node, format string, args ...any) {
	r.failed = true
	r.p.Add(fmt.Sprintf("line %d", n.Line), "not valid YAML: %s", withoutValues(fmt.Sprintf(format, args...)))
}

const quotedStyles = goyaml.SingleQuotedStyle | goyaml.DoubleQuotedStyle | goyaml.LiteralStyle | goyaml.FoldedStyle

// isUnquoted reports a scalar that stands for what it looks like. A tag, such as !!str, makes one of quoted text.
func isUnquoted(n *goyaml.Node) bool {
	return n.Style&goyaml.TaggedStyle != 0 || n.Style&quotedStyles == 0
}

// isNull reports a scalar without a value. With a tag it is a string.
func isNull(n *goyaml.Node) bool {
	if n.Kind != goyaml.ScalarNode || n.Style&(goyaml.TaggedStyle|quotedStyles) != 0 {
		return false
	}
	switch n.Value {
	case "", "~", "null", "Null", "NULL":
		return true
	}
	return false
}

// scalar is what Envoy takes a word for: null, a bool, an integer, else a string. What is a number in YAML otherwise, as 1.0, is a string, which a field
// of numbers accepts; so is an integer beyond 32 bits.
func scalar(n *goyaml.Node) any {
	if isNull(n) {
		return nil
	}
	if !isUnquoted(n) {
		return n.Value
	}
	if b, ok := flexibleBool(n.Value); ok {
		return b
	}
	i, ok := yamlInteger(n.Value)
	switch {
	case !ok:
		return n.Value
	case i < math.MinInt32 || i > math.MaxInt32:
		return strconv.FormatInt(i, 10)
	}
	return json.Number(strconv.FormatInt(i, 10))
}

// flexibleBool reads the bools of YAML 1.1, in lower case, in upper case or with a capital.
func flexibleBool(word string) (value, ok bool) {
	lower := ascii.Lower(word)
	if word != lower && word != ascii.Upper(lower) && word != ascii.Upper(lower[:1])+lower[1:] {
		return false, false
	}
	switch lower {
	case "y", "yes", "true", "on":
		return true, true
	case "n", "no", "false", "off":
		return false, true
	}
	return false, false
}

// integers of yaml-cpp: decimal, octal as 010, and hexadecimal as 0x1f. The forms 08, 0o10, 0b1 and 1_000 are strings.
var integers = regexp.MustCompile(`^[-+]?(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)$`)

func yamlInteger(word string) (int64, bool) {
	if !integers.MatchString(word) {
		return 0, false
	}
	i, err := strconv.ParseInt(word, 0, 64)
	return i, err == nil
}
