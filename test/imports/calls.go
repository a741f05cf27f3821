// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
)

// every in a row of unfit stands for all that a package has.
const every = "*"

// byUnicode are functions of packages strings and bytes that go by the cases and the white space of
// Unicode.
var byUnicode = []string{"EqualFold", "Fields", "FieldsSeq", "Title", "ToLower", "ToLowerSpecial", "ToTitle", "ToTitleSpecial", "ToUpper",
	"ToUpperSpecial", "TrimSpace"}

// unfit are functions of the standard library that read more than a protocol allows, by package.
// Peers of a balancer decide what it reads; one that takes "chun\u212aed" for "chunked" where an
// endpoint does not lets a client hide a request in another one.
var unfit = map[string]struct {
	functions []string
	why       string
}{
	"strings":       {byUnicode, "goes by Unicode; take internal/ascii"},
	"bytes":         {byUnicode, "goes by Unicode; take internal/ascii"},
	"unicode":       {[]string{every}, "goes by Unicode; compare bytes"},
	"fmt":           {[]string{"Fscan", "Fscanf", "Fscanln", "Sscan", "Sscanf", "Sscanln"}, "takes signs, and white space of Unicode; cut and parse"},
	"net/http":      {[]string{"CanonicalHeaderKey", "ParseHTTPVersion"}, "changes what was sent; compare with internal/ascii"},
	"net/textproto": {[]string{every}, "changes what was sent; compare with internal/ascii"},
	"net/url": {[]string{"Parse", "ParseQuery", "ParseRequestURI", "PathUnescape", "QueryUnescape"},
		"reads targets in a way of its own; internal/model and internal/slowpath have what routes go by"},
	"path":    {[]string{"Clean", "Join", "Match"}, "is for names of files; internal/model has the rules for paths of requests"},
	"strconv": {[]string{"Atoi", "ParseBool", "ParseFloat", "ParseInt"}, "takes signs and more; ParseUint takes digits alone"},
}

const (
	ofThisMachine = "reads what the kernel of this machine writes"
	ofOperator    = "reads a file of the operator's"
	ofAdmin       = "reads what those who may see everything ask the admin address"
)

// excepted are the uses of unfit functions by file, and why they harm nobody.
var excepted = map[string]map[string]string{
	"internal/admin/parameters.go":         {"url.ParseQuery": ofAdmin},
	"internal/check/host.go":               {"fmt.Sscanf": ofThisMachine, "strings.Fields": ofThisMachine, "strings.TrimSpace": ofThisMachine},
	"internal/check/kernel.go":             {"strings.Fields": "makes one line of an error"},
	"internal/check/limits.go":             {"strings.TrimSpace": ofThisMachine},
	"internal/check/memory.go":             {"strings.Fields": ofThisMachine, "strings.TrimSpace": ofThisMachine},
	"internal/config/headers/format.go":    {"strconv.Atoi": ofOperator + ": behind an expression that takes digits"},
	"internal/config/clusters/health.go":   {"url.ParseRequestURI": ofOperator},
	"internal/problem/list.go":             {"strconv.Atoi": "sorts messages", "strings.Fields": "makes one line of an error"},
	"internal/config/bootstrap.go":         {"fmt.Sscanf": "reads this binary's own version"},
	"internal/dfa/nfa.go":                  {"unicode.MaxRune": "RE2, whose expressions these are, goes by Unicode", "unicode.SimpleFold": "as RE2"},
	"internal/explain/query.go":            {"url.Parse": ofAdmin},
	"internal/heels/check/check.go":        {"strconv.Atoi": ofThisMachine, "strings.Fields": ofThisMachine, "strings.ToLower": ofThisMachine, "strings.TrimSpace": ofThisMachine},
	"internal/heels/check/process.go":      {"strconv.Atoi": ofThisMachine, "strings.Fields": ofThisMachine},
	"internal/heels/settings/config.go":    {"strings.Fields": "makes one line of an error"},
	"internal/heels/settings/key.go":       {"strings.TrimSpace": ofOperator},
	"internal/config/document/scalars.go":  {"strconv.ParseFloat": "numbers of a configuration have signs, as in protobuf", "strconv.ParseInt": "likewise"},
	"internal/config/document/yamltree.go": {"strconv.ParseInt": "integers of YAML have signs"},
	"internal/model/matcher/header.go":     {"strconv.ParseInt": "as Envoy a range takes numbers with a sign"},
	"internal/precedence/precedence.go":    {"strconv.Atoi": ofThisMachine},
	"internal/pool/port.go":                {"strings.Fields": ofThisMachine, "strings.TrimSpace": ofThisMachine},
	"internal/upstream/congestion.go":      {"strings.TrimSpace": ofThisMachine},
}

// calls returns the unfit functions that a file uses, as "package.Function".
func calls(file *ast.File) []string {
	packages := map[string]string{}
	for _, spec := range file.Imports {
		pkg, err := strconv.Unquote(spec.Path.Value)
		if _, listed := unfit[pkg]; err == nil && listed {
			packages[localName(spec, pkg)] = pkg
		}
	}
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		s, isSelector := n.(*ast.SelectorExpr)
		if !isSelector {
			return true
		}
		name, isName := s.X.(*ast.Ident)
		// What the parser resolves within the file is no package.
		if !isName || name.Obj != nil || packages[name.Name] == "" {
			return true
		}
		pkg := packages[name.Name]
		if f := unfit[pkg].functions; slices.Contains(f, every) || slices.Contains(f, s.Sel.Name) {
			found = append(found, path.Base(pkg)+"."+s.Sel.Name)
		}
		return true
	})
	slices.Sort(found)
	return slices.Compact(found)
}

// localName is what a file calls a package.
func localName(spec *ast.ImportSpec, pkg string) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	return path.Base(pkg)
}

// unfitCalls returns a line for each unfit function that a file uses without an exception, and one for
// each exception without a use.
func unfitCalls(name string, file *ast.File) (lines []string) {
	used := calls(file)
	for _, call := range used {
		if excepted[name][call] == "" {
			lines = append(lines, fmt.Sprintf("%s: %s %s", name, call, reasonOf(call)))
		}
	}
	for call := range excepted[name] {
		if !slices.Contains(used, call) {
			lines = append(lines, fmt.Sprintf("%s: %s is excepted (test/imports/calls.go) and not used; take it out", name, call))
		}
	}
	return lines
}

func reasonOf(call string) string {
	for pkg, row := range unfit {
		if strings.HasPrefix(call, path.Base(pkg)+".") {
			return row.why
		}
	}
	return ""
}
