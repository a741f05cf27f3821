// SPDX-License-Identifier: Apache-2.0

package admin

import "github.com/xlb-project/xlb/internal/model/rewrite"

var serverHeaders = map[rewrite.ServerHeader]string{
	rewrite.ServerOverwrite: "OVERWRITE", rewrite.ServerAppendIfAbsent: "APPEND_IF_ABSENT", rewrite.ServerPassThrough: "PASS_THROUGH",
}

// addEnvoyHeaders adds the connection manager's fields about headers that are added unasked, with their defaults.
func addEnvoyHeaders(manager object, rule *rewrite.EnvoyHeaders) {
	if rule == nil {
		return
	}
	for name, value := range map[string]any{
		"use_remote_address":                rule.UseRemoteAddress,
		"xff_num_trusted_hops":              rule.TrustedHops,
		"skip_xff_append":                   rule.SkipForwardedFor,
		"generate_request_id":               rule.GenerateRequestID,
		"preserve_external_request_id":      rule.PreserveRequestID,
		"always_set_request_id_in_response": rule.RequestIDInResponse,
		"server_header_transformation":      serverHeaders[rule.Server],
		"server_name":                       rule.ServerName,
		"via":                               rule.Via,
	} {
		manager[name] = value
	}
}
