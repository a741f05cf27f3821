// SPDX-License-Identifier: Apache-2.0

package headers

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/config/values"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

// operatorForm is what Envoy writes: %NAME%, %NAME(arguments)% or %NAME(arguments):length%.
var operatorForm = regexp.MustCompile(`^%([A-Z0-9_]+)(?:\(([^)]*)\))?(?::([0-9]+))?%`)

// plainOperators take no arguments, and their values depend on the request.
var plainOperators = map[string]rewrite.FormatKind{
	"ROUTE_NAME": rewrite.FormatRouteName, "PROTOCOL": rewrite.FormatProtocol, "RESPONSE_CODE": rewrite.FormatResponseCode,
	"UPSTREAM_CLUSTER": rewrite.FormatUpstreamCluster, "UPSTREAM_CLUSTER_RAW": rewrite.FormatUpstreamClusterRaw,
	"UPSTREAM_HOST":             rewrite.FormatUpstreamHost,
	"DOWNSTREAM_REMOTE_ADDRESS": rewrite.FormatRemoteAddress, "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT": rewrite.FormatRemoteIP,
	"DOWNSTREAM_REMOTE_PORT": rewrite.FormatRemotePort, "DOWNSTREAM_DIRECT_REMOTE_ADDRESS": rewrite.FormatDirectAddress,
	"DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT": rewrite.FormatDirectIP, "DOWNSTREAM_DIRECT_REMOTE_PORT": rewrite.FormatDirectPort,
}

// format reads a text with operators.
func (r *Reader) format(text, path string) rewrite.Format {
	out := rewrite.Format{Source: text}
	for text != "" {
		literal, _, found := strings.Cut(text, "%")
		out.Parts = appendPart(out.Parts, rewrite.FormatPart{Text: literal})
		text = text[len(literal):]
		if !found {
			break
		}
		if rest, escaped := strings.CutPrefix(text, "%%"); escaped {
			out.Parts = appendPart(out.Parts, rewrite.FormatPart{Text: "%"})
			text = rest
			continue
		}
		match := operatorForm.FindStringSubmatch(text)
		if match == nil {
			r.p.Add(path, "%q begins no operator: write %%NAME%%, %%NAME(arguments)%%, or %%%% for a percent sign", text)
			break
		}
		parts, ok := r.operator(match[1], match[2], match[3])
		if !ok {
			r.p.Add(path, "%s is no operator that XLB has; docs/limits.md lists them", match[0])
			break
		}
		if r.scope.Checks && (isOfListener(match[1]) || !areLiteral(parts)) {
			r.p.Add(path, "%s: a health check has no client's request to take values from; write the value itself", match[0])
			break
		}
		for _, p := range parts {
			out.Parts = appendPart(out.Parts, p)
		}
		text = text[len(match[0]):]
	}
	for _, p := range out.Parts {
		if p.Kind == rewrite.FormatLiteral {
			r.FieldValue(p.Text, path)
		}
	}
	return out
}

// isOfListener reports an operator whose value is the address of the listener that a request has come to, or a part of it. In a health check, which comes to
// none, Envoy accepts these too, and writes an address that no socket has: 127.0.0.1:0.
func isOfListener(operator string) bool { return strings.HasPrefix(operator, "DOWNSTREAM_LOCAL_") }

func areLiteral(parts []rewrite.FormatPart) bool {
	return !slices.ContainsFunc(parts, func(p rewrite.FormatPart) bool { return p.Kind != rewrite.FormatLiteral })
}

// appendPart makes one literal of several that follow one another.
func appendPart(parts []rewrite.FormatPart, p rewrite.FormatPart) []rewrite.FormatPart {
	last := len(parts) - 1
	switch {
	case p.Kind != rewrite.FormatLiteral:
		return append(parts, p)
	case p.Text == "":
		return parts
	case last >= 0 && parts[last].Kind == rewrite.FormatLiteral:
		parts[last].Text += p.Text
		return parts
	}
	return append(parts, p)
}

// operator reads one operator. Only values of headers may be cut to a length.
func (r *Reader) operator(name, arguments, length string) ([]rewrite.FormatPart, bool) {
	if name == "REQ" || name == "RESP" {
		part, ok := r.headerOperator(name, arguments)
		part.Max, _ = strconv.Atoi(length)
		return []rewrite.FormatPart{part}, ok && (length == "" || part.Max > 0)
	}
	switch {
	case length != "":
		return nil, false
	case name == "START_TIME":
		return timeOperator(arguments)
	case name == "ENVIRONMENT" && arguments != "":
		return literal(environment(arguments)), true
	case arguments != "":
		return nil, false
	}
	if kind, ok := plainOperators[name]; ok {
		return []rewrite.FormatPart{{Kind: kind}}, true
	}
	if r.scope.Many && isOfListener(name) ||
		r.scope.Address.IsValid() && r.scope.Address.Addr().IsUnspecified() && strings.HasPrefix(name, "DOWNSTREAM_LOCAL_ADDRESS") {
		return nil, false // another one for each connection
	}
	switch name {
	case "DOWNSTREAM_LOCAL_ADDRESS":
		return literal(r.scope.Address.String()), true
	case "DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT":
		return literal(r.scope.Address.Addr().String()), true
	case "DOWNSTREAM_LOCAL_PORT":
		return literal(strconv.Itoa(int(r.scope.Address.Port()))), true
	case "HOSTNAME":
		return literal(values.Hostname()), true
	}
	return nil, false
}

func literal(text string) []rewrite.FormatPart { return []rewrite.FormatPart{{Text: text}} }

// environment is a variable's value, and "-" as in Envoy where it is not set.
func environment(name string) string {
	if value, ok := os.LookupEnv(name); ok {
		return value
	}
	return "-"
}

// headerOperator reads "X" or "X?Y".
func (r *Reader) headerOperator(name, arguments string) (rewrite.FormatPart, bool) {
	out := rewrite.FormatPart{Kind: rewrite.FormatRequest}
	if name == "RESP" {
		out.Kind = rewrite.FormatResponse
	}
	header, other, both := strings.Cut(ascii.Lower(arguments), "?")
	out.Text, out.Other = header, other
	ok := r.isHeaderOrPseudo(header, out.Kind) && (!both || r.isHeaderOrPseudo(other, out.Kind))
	return out, ok
}

// isHeaderOrPseudo leaves out those that Envoy sets or removes and XLB does not. Of responses that are headers of the router's own.
func (r *Reader) isHeaderOrPseudo(name string, kind rewrite.FormatKind) bool {
	switch name {
	case ":path", ":method", ":authority", ":scheme":
		return kind == rewrite.FormatRequest
	case ":status":
		return kind == rewrite.FormatResponse
	}
	if !httpguts.ValidHeaderFieldName(name) || ofConnection[name] {
		return false
	}
	if kind == rewrite.FormatResponse {
		return r.scope.EnvoyHeaders || !strings.HasPrefix(name, "x-envoy-")
	}
	return !r.isSetByEnvoy(name) || r.isKnown(name)
}

// startTime is %START_TIME% without arguments.
const startTime = "%Y-%m-%dT%H:%M:%S.%3fZ"

// timeDirectives are the commonest of strftime's and of Envoy's own.
var timeDirectives = map[string]rewrite.FormatPart{
	"Y": {Kind: rewrite.FormatTime, Text: "2006"}, "m": {Kind: rewrite.FormatTime, Text: "01"}, "d": {Kind: rewrite.FormatTime, Text: "02"},
	"H": {Kind: rewrite.FormatTime, Text: "15"}, "M": {Kind: rewrite.FormatTime, Text: "04"}, "S": {Kind: rewrite.FormatTime, Text: "05"},
	"F": {Kind: rewrite.FormatTime, Text: "2006-01-02"}, "T": {Kind: rewrite.FormatTime, Text: "15:04:05"}, "s": {Kind: rewrite.FormatSeconds},
	"3f": {Kind: rewrite.FormatFraction, Max: 3}, "6f": {Kind: rewrite.FormatFraction, Max: 6}, "9f": {Kind: rewrite.FormatFraction, Max: 9},
}

var timeDirective = regexp.MustCompile(`^%([0-9]?[a-zA-Z])`)

// timeOperator reads the argument of %START_TIME%.
func timeOperator(text string) (parts []rewrite.FormatPart, ok bool) {
	if text == "" {
		text = startTime
	}
	for {
		before, _, found := strings.Cut(text, "%")
		parts = append(parts, rewrite.FormatPart{Text: before})
		if !found {
			return parts, true
		}
		text = text[len(before):]
		match := timeDirective.FindStringSubmatch(text)
		if match == nil {
			return nil, false
		}
		part, known := timeDirectives[match[1]]
		if !known {
			return nil, false
		}
		parts = append(parts, part)
		text = text[len(match[0]):]
	}
}
