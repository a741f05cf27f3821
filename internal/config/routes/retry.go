// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"strings"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	canariesv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/omit_canary_hosts/v3"
	metadatav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/omit_host_metadata/v3"
	previousv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	prioritiesv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/priority/previous_priorities/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/config/values"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// retryConditions are the values of retry_on. Those about gRPC, HTTP/2 and HTTP/3 speak of what does not occur here.
var retryConditions = map[string]model.RetryOn{
	"5xx":                    model.RetryOn5xx,
	"gateway-error":          model.RetryOnGatewayError,
	"reset":                  model.RetryOnReset,
	"reset-before-request":   model.RetryOnResetBeforeRequest,
	"connect-failure":        model.RetryOnConnectFailure,
	"retriable-4xx":          model.RetryOnRetriable4xx,
	"retriable-status-codes": model.RetryOnStatusCodes,
	"retriable-headers":      model.RetryOnHeaders,
	"envoy-ratelimited":      model.RetryOnRateLimited,

	"refused-stream": 0, "http3-post-connect-failure": 0,
	"cancelled": 0, "deadline-exceeded": 0, "internal": 0, "resource-exhausted": 0, "unavailable": 0,
}

// retry translates a policy; nil where there is none.
func (t *translator) retry(in *routev3.RetryPolicy, path string) *model.Retry {
	if in == nil {
		return nil
	}
	path += ".retry_policy"
	out := &model.Retry{
		On: t.retryOn(in.GetRetryOn(), path+".retry_on"), Retries: model.DefaultRetries,
		PerTry:         t.Duration(in.GetPerTryTimeout(), 0, path+".per_try_timeout"),
		PerTryIdle:     t.Duration(in.GetPerTryIdleTimeout(), 0, path+".per_try_idle_timeout"),
		Headers:        t.headers.ResponseMatches(in.GetRetriableHeaders(), path+".retriable_headers"),
		RequestHeaders: t.headers.Matches(in.GetRetriableRequestHeaders(), path+".retriable_request_headers"),
	}
	if n := in.GetNumRetries(); n != nil {
		out.Retries = n.GetValue()
	}
	for _, code := range in.GetRetriableStatusCodes() {
		out.StatusCodes = append(out.StatusCodes, int(code))
	}
	for i, p := range in.GetRetryHostPredicate() {
		t.hostPredicate(p.GetTypedConfig(), out, problem.At(path+".retry_host_predicate", i)+".typed_config")
	}
	if p := in.GetRetryPriority(); p != nil {
		config := &prioritiesv3.PreviousPrioritiesConfig{}
		if t.Unpack(p.GetTypedConfig(), config, path+".retry_priority.typed_config", "PreviousPrioritiesConfig") {
			out.AvoidPriorities = uint32(config.GetUpdateFrequency())
		}
	}
	t.backOff(in, out, path)
	return out
}

// hostPredicate adds one predicate to those of a policy: as in Envoy an endpoint is left out that any of them leaves out.
func (t *translator) hostPredicate(content *anypb.Any, out *model.Retry, path string) {
	switch {
	case content.MessageIs(&canariesv3.OmitCanaryHostsPredicate{}):
		out.OmitCanaries = true
	case content.MessageIs(&metadatav3.OmitHostMetadataConfig{}):
		config := &metadatav3.OmitHostMetadataConfig{}
		if !t.Unpack(content, config, path, "OmitHostMetadataConfig") {
			return
		}
		if asked := values.Criteria(config.GetMetadataMatch(), ""); asked != "" { // Envoy leaves nobody out without one
			out.OmitMetadata = append(out.OmitMetadata, asked)
		}
	case t.Unpack(content, &previousv3.PreviousHostsPredicate{}, path, "PreviousHostsPredicate"):
		out.AvoidPrevious = true
	}
}

// retryOn reads a list of conditions, separated by commas. Envoy passes over what it does not know; a misspelt one would go unnoticed.
func (t *translator) retryOn(list, path string) model.RetryOn {
	var on model.RetryOn
	for name := range strings.SplitSeq(list, ",") {
		name = strings.Trim(name, " ")
		condition, known := retryConditions[name]
		if name != "" && !known {
			t.p.Add(path, "unknown condition %q; remove it, or write status codes in retriable_status_codes", name)
		}
		on |= condition
	}
	return on
}

// backOff translates how long to wait before a retry.
func (t *translator) backOff(in *routev3.RetryPolicy, out *model.Retry, path string) {
	exponential := path + ".retry_back_off"
	out.Base = interval(in.GetRetryBackOff().GetBaseInterval().AsDuration(), model.DefaultRetryBase)
	out.Max = interval(in.GetRetryBackOff().GetMaxInterval().AsDuration(), 10*out.Base)
	if out.Max < out.Base {
		t.p.Add(exponential+".max_interval", "shorter than base_interval, which Envoy refuses; use as much or more")
	}
	limited := in.GetRateLimitedRetryBackOff()
	for _, h := range limited.GetResetHeaders() {
		out.Resets = append(out.Resets, model.RetryReset{
			Name: ascii.Lower(h.GetName()), UnixTime: h.GetFormat() == routev3.RetryPolicy_UNIX_TIMESTAMP,
		})
	}
	out.ResetMax = interval(limited.GetMaxInterval().AsDuration(), model.DefaultRetryResetMax)
}

// interval is at least Envoy's smallest, 1 ms; 0 stands for one that is not set, since none may be.
func interval(d, absent time.Duration) time.Duration {
	if d == 0 {
		return absent
	}
	return max(d.Truncate(time.Millisecond), time.Millisecond)
}
