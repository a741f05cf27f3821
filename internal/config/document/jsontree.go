// SPDX-License-Identifier: Apache-2.0

package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/xlb-project/xlb/internal/problem"
)

// jsonTree reads one JSON value as Envoy does, with what its parser grants beyond the standard (protobuf, src/google/protobuf/json/internal/lexer.cc):
// a comma behind the last element, names without quotes, strings in single quotes, and control characters in strings. The tree is as yamlTree's, but
// that its numbers are of any size. It reports what cannot be read under its line and returns false.
func jsonTree(p *problem.List, data []byte) (tree any, ok bool) {
	if !utf8.Valid(data) {
		p.Add("", "not JSON: it is not in UTF-8")
		return nil, false
	}
	r := &jsonReader{unread: data}
	if r.peek() == 0 {
		return nil, true
	}
	tree, err := r.value(0)
	if err == nil && r.peek() != 0 {
		err = errors.New("more than one JSON value; keep one")
	}
	switch {
	case err == nil:
		return tree, true
	case errors.Is(err, io.ErrUnexpectedEOF):
		p.Add("", "not JSON: %v", err)
	default:
		p.Add(fmt.Sprintf("line %d", 1+bytes.Count(data[:len(data)-len(r.unread)], []byte("\n"))), "%v", err)
	}
	return nil, false
}

const (
	jsonSpace = " \t\r\n"
	// maxDepth is how deep lists and objects may lie in each other; protobuf's limit.
	maxDepth = 100
)

type jsonReader struct{ unread []byte }

// peek is the byte that the next token begins with; 0 at the end.
func (r *jsonReader) peek() byte {
	r.unread = bytes.TrimLeft(r.unread, jsonSpace)
	if len(r.unread) == 0 {
		return 0
	}
	return r.unread[0]
}

// take passes over the next token if it begins with c.
func (r *jsonReader) take(c byte) bool {
	if r.peek() != c {
		return false
	}
	r.unread = r.unread[1:]
	return true
}

// unexpected is the error where the next token cannot be.
func (r *jsonReader) unexpected(want string) error {
	if c := r.peek(); c != 0 {
		return fmt.Errorf("not JSON: expected %s, and there is %q", want, c)
	}
	return io.ErrUnexpectedEOF
}

var (
	jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?`)
	bareWord   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*`)
)

func (r *jsonReader) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("more than %d lists and objects in each other", maxDepth)
	}
	switch c := r.peek(); {
	case c == '{':
		return r.object(depth)
	case c == '[':
		return r.list(depth)
	case c == '"', c == '\'':
		return r.text()
	case c == '-', c >= '0' && c <= '9':
		return r.number()
	}
	word := bareWord.Find(r.unread)
	r.unread = r.unread[len(word):]
	switch string(word) {
	case "null":
		return nil, nil
	case "true", "false":
		return string(word) == "true", nil
	case "":
		return nil, r.unexpected("a value")
	}
	return nil, errors.New("not JSON: a word without quotes is no value")
}

func (r *jsonReader) number() (any, error) {
	n := jsonNumber.Find(r.unread)
	r.unread = r.unread[len(n):]
	if c := r.peek(); len(n) == 0 || c != ',' && c != ']' && c != '}' && c != 0 {
		return nil, errors.New("not JSON: a number is malformed; 5, -5, 0.5 and 5e3 are some")
	}
	return json.Number(n), nil
}

func (r *jsonReader) list(depth int) (any, error) {
	list := []any{}
	r.take('[')
	for !r.take(']') {
		one, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
		if !r.take(',') && r.peek() != ']' {
			return nil, r.unexpected("a comma or ]")
		}
	}
	return list, nil
}

func (r *jsonReader) object(depth int) (any, error) {
	object := map[string]any{}
	r.take('{')
	for !r.take('}') {
		name, err := r.name()
		if err != nil {
			return nil, err
		}
		if _, twice := object[name]; twice {
			return nil, fmt.Errorf("a duplicate: %s is set twice; keep one", withoutValues(strconv.Quote(name)))
		}
		if !r.take(':') {
			return nil, r.unexpected("a colon")
		}
		if object[name], err = r.value(depth + 1); err != nil {
			return nil, err
		}
		if !r.take(',') && r.peek() != '}' {
			return nil, r.unexpected("a comma or }")
		}
	}
	return object, nil
}

func (r *jsonReader) name() (string, error) {
	if c := r.peek(); c == '"' || c == '\'' {
		return r.text()
	}
	word := string(bareWord.Find(r.unread))
	switch word {
	case "", "null", "true", "false":
		return "", r.unexpected("a name")
	}
	r.unread = r.unread[len(word):]
	return word, nil
}

// escapes are those of one character.
var escapes = map[byte]byte{'"': '"', '\'': '\'', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// text reads a string between quotes of either kind.
func (r *jsonReader) text() (string, error) {
	quote := r.unread[0]
	r.unread = r.unread[1:]
	var out strings.Builder
	for {
		i := bytes.IndexAny(r.unread, `\`+string(quote))
		if i < 0 {
			r.unread = nil
			return "", io.ErrUnexpectedEOF
		}
		out.Write(r.unread[:i])
		found := r.unread[i]
		r.unread = r.unread[i+1:]
		if found == quote {
			return out.String(), nil
		}
		c, err := r.escape()
		if err != nil {
			return "", err
		}
		out.WriteRune(c)
	}
}

// escape reads what follows a backslash.
func (r *jsonReader) escape() (rune, error) {
	if len(r.unread) == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	c := r.unread[0]
	if c != 'u' && c != 'U' {
		if escapes[c] == 0 {
			return 0, fmt.Errorf("not JSON: there is no escape \\%c", c)
		}
		r.unread = r.unread[1:]
		return rune(escapes[c]), nil
	}
	first, ok := r.codeUnit(r.unread[1:])
	if ok && !utf16.IsSurrogate(first) {
		return first, nil
	}
	if ok && bytes.HasPrefix(r.unread, []byte(`\u`)) {
		if second, also := r.codeUnit(r.unread[2:]); also {
			if pair := utf16.DecodeRune(first, second); pair != utf8.RuneError {
				return pair, nil
			}
		}
	}
	return 0, errors.New("not JSON: an escape \\u is malformed; four hexadecimal digits follow, or two such escapes make a pair")
}

// codeUnit reads four hexadecimal digits, and goes on behind them.
func (r *jsonReader) codeUnit(digits []byte) (rune, bool) {
	if len(digits) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(digits[:4]), 16, 16)
	r.unread = digits[4:]
	return rune(n), err == nil && !bytes.ContainsAny(digits[:4], "+-_")
}
