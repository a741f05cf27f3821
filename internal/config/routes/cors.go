// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"

	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xlb-project/xlb/internal/config/values"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/problem"
)

// corsLevel is a policy as it was written, and its origins translated.
type corsLevel struct {
	*corsv3.CorsPolicy
	origins []matcher.StringMatch
}

func (t *translator) corsLevel(in *corsv3.CorsPolicy, path string) *corsLevel {
	out := &corsLevel{CorsPolicy: in}
	for i, m := range in.GetAllowOriginStringMatch() {
		out.origins = append(out.origins, t.StringMatch(m, problem.At(path+".allow_origin_string_match", i)))
	}
	t.headers.FieldValue(in.GetAllowMethods(), path+".allow_methods")
	t.headers.FieldValue(in.GetAllowHeaders(), path+".allow_headers")
	t.headers.FieldValue(in.GetExposeHeaders(), path+".expose_headers")
	t.headers.FieldValue(in.GetMaxAge(), path+".max_age")
	return out
}

// mergedCORS takes each field from the first level that sets it, as Envoy does, but for
// filter_enabled, of which the first policy decides. nil is a policy that never has an effect.
func mergedCORS(levels []filterLevel) *model.CORS {
	var out *model.CORS
	var credentials, network, forward *bool
	for _, l := range levels {
		if l.cors == nil {
			continue
		}
		if out == nil {
			out = &model.CORS{}
			if enabled := l.cors.GetFilterEnabled(); enabled != nil {
				out.Enabled = values.Fraction(enabled.GetDefaultValue())
			}
		}
		if len(out.Origins) == 0 {
			out.Origins = l.cors.origins
		}
		out.Methods = cmp.Or(out.Methods, l.cors.GetAllowMethods())
		out.Headers = cmp.Or(out.Headers, l.cors.GetAllowHeaders())
		out.ExposeHeaders = cmp.Or(out.ExposeHeaders, l.cors.GetExposeHeaders())
		out.MaxAge = cmp.Or(out.MaxAge, l.cors.GetMaxAge())
		credentials = cmp.Or(credentials, boolOf(l.cors.GetAllowCredentials()))
		network = cmp.Or(network, boolOf(l.cors.GetAllowPrivateNetworkAccess()))
		forward = cmp.Or(forward, boolOf(l.cors.GetForwardNotMatchingPreflights()))
	}
	if out == nil {
		return nil
	}
	out.Credentials, out.PrivateNetwork = credentials != nil && *credentials, network != nil && *network
	out.AnswerAll = forward != nil && !*forward
	if out.Enabled.Never() || len(out.Origins) == 0 && !out.AnswerAll {
		return nil
	}
	return out
}

// boolOf is nil for what is not set.
func boolOf(in *wrapperspb.BoolValue) *bool {
	if in == nil {
		return nil
	}
	return &in.Value
}
