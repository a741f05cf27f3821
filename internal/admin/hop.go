// SPDX-License-Identifier: Apache-2.0

package admin

import "github.com/xlb-project/xlb/internal/model/rewrite"

var serverHeaders = map[rewrite.ServerHeader]string{
	rewrite.ServerOverwrite: "OVERWRITE", rewrite.ServerAppendIfAbsent: "APPEND_IF_ABSENT", rewrite.ServerPassThrough: "PASS_THROUGH",
}

// addHop adds the connection manager's fields about headers that are added unasked, with their defaults.
func addHop(manager object, hop *rewrite.Hop) {
	if hop == nil {
		return
	}
	for name, value := range map[string]any{
		"use_remote_address":                hop.UseRemoteAddress,
		"xff_num_trusted_hops":              hop.TrustedHops,
		"skip_xff_append":                   hop.SkipForwardedFor,
		"generate_request_id":               hop.GenerateRequestID,
		"preserve_external_request_id":      hop.PreserveRequestID,
		"always_set_request_id_in_response": hop.RequestIDInResponse,
		"server_header_transformation":      serverHeaders[hop.Server],
		"server_name":                       hop.ServerName,
		"via":                               hop.Via,
	} {
		manager[name] = value
	}
}
