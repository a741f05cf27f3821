// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/xlb-project/xlb/internal/model/rewrite"
)

var serverHeaders = map[hcmv3.HttpConnectionManager_ServerHeaderTransformation]rewrite.ServerHeader{
	hcmv3.HttpConnectionManager_OVERWRITE:        rewrite.ServerOverwrite,
	hcmv3.HttpConnectionManager_APPEND_IF_ABSENT: rewrite.ServerAppendIfAbsent,
	hcmv3.HttpConnectionManager_PASS_THROUGH:     rewrite.ServerPassThrough,
}

// envoyHeaders are nil unless the option of that name asks for them.
func (t *translator) envoyHeaders(hcm *hcmv3.HttpConnectionManager, path string) *rewrite.EnvoyHeaders {
	if !t.in.EnvoyHeaders {
		return nil
	}
	t.headers.FieldValue(hcm.GetServerName(), path+".server_name")
	t.headers.FieldValue(hcm.GetVia(), path+".via")
	return &rewrite.EnvoyHeaders{
		UseRemoteAddress:     hcm.GetUseRemoteAddress().GetValue(),
		TrustedHops:          hcm.GetXffNumTrustedHops(),
		SkipForwardedFor:     hcm.GetSkipXffAppend(),
		GenerateRequestID:    hcm.GetGenerateRequestId() == nil || hcm.GetGenerateRequestId().GetValue(),
		PreserveRequestID:    hcm.GetPreserveExternalRequestId(),
		RequestIDInResponse:  hcm.GetAlwaysSetRequestIdInResponse(),
		Server:               serverHeaders[hcm.GetServerHeaderTransformation()],
		ServerName:           cmp.Or(hcm.GetServerName(), "envoy"),
		Via:                  hcm.GetVia(),
		SuppressEnvoyHeaders: t.filters.suppressEnvoyHeaders,
	}
}
