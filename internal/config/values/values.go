// SPDX-License-Identifier: Apache-2.0

// Package values translates what many of Envoy's messages have in common: durations, addresses, shares of
// requests, matchers of strings, metadata, texts in PEM, and configurations whose type is written beside them.
//
// Paths are those of the fields, in Envoy's names from the root of the document. A value that cannot be served
// is a problem at its path; what is returned then may be the zero value, and is not put in force.
package values

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xlb-project/xlb/internal/config/document"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/problem"
)

// FetchTimeout is Envoy's default of ConfigSource.initial_fetch_timeout.
const FetchTimeout = 15 * time.Second

// Reader reads values of one configuration. It collects their problems, and counts what the regular expressions cost.
// Not safe for concurrent use.
type Reader struct {
	p      *problem.List
	effort effort
}

// NewReader returns a Reader that reports to p, and has read no expression.
func NewReader(p *problem.List) *Reader { return &Reader{p: p} }

// Problems is where the Reader reports problems, and where others report those of the same document.
func (r *Reader) Problems() *problem.List { return r.p }

// Positive is Duration for one that may not be below 1 ms, which is a problem.
func (r *Reader) Positive(d *durationpb.Duration, absent time.Duration, path string) time.Duration {
	out := r.Duration(d, absent, path)
	if out == 0 {
		r.p.Add(path, "shorter than 1 ms, Envoy's smallest unit; use more")
	}
	return out
}

// Duration translates to milliseconds, and cuts off what is smaller, as Envoy does. It returns absent where nothing is set, and after a problem: a
// negative duration.
func (r *Reader) Duration(d *durationpb.Duration, absent time.Duration, path string) time.Duration {
	switch {
	case d == nil:
		return absent
	case d.AsDuration() < 0:
		r.p.Add(path, "negative; use 0s or more")
		return absent
	default:
		return d.AsDuration().Truncate(time.Millisecond)
	}
}

// Unpack decodes a configuration into m (Any), which has to be of its type; want names that type to who reads the problem. It reports whether m
// has it.
func (r *Reader) Unpack(content *anypb.Any, m proto.Message, path, want string) bool {
	if content == nil {
		r.p.Add(path, "missing: XLB needs %s here", want)
		return false
	}
	if !content.MessageIs(m) {
		r.p.Add(path, "not supported here: %s; XLB needs %s", content.GetTypeUrl(), want)
		return false
	}
	if err := content.UnmarshalTo(m); err != nil {
		r.p.Add(path, "%s", document.Reason(err))
		return false
	}
	return true
}

// Fraction translates the default value of a share of requests: without a runtime nothing else ever applies (RuntimeFractionalPercent).
func Fraction(f *typev3.FractionalPercent) matcher.Fraction {
	out := matcher.Fraction{Numerator: f.GetNumerator(), Denominator: 100}
	switch f.GetDenominator() {
	case typev3.FractionalPercent_TEN_THOUSAND:
		out.Denominator = 10_000
	case typev3.FractionalPercent_MILLION:
		out.Denominator = 1_000_000
	}
	return out
}

// Priority translates the priority of a route or of thresholds (RoutingPriority).
func Priority(p corev3.RoutingPriority) model.Priority { return priorities[p] }

var priorities = map[corev3.RoutingPriority]model.Priority{
	corev3.RoutingPriority_DEFAULT: model.PriorityDefault,
	corev3.RoutingPriority_HIGH:    model.PriorityHigh,
}

// Locality translates where a node or an endpoint is (Locality).
func Locality(l *corev3.Locality) model.Locality {
	return model.Locality{Region: l.GetRegion(), Zone: l.GetZone(), SubZone: l.GetSubZone()}
}
