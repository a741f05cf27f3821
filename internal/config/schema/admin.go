// SPDX-License-Identifier: Apache-2.0

package schema

// adminMessage is where adminFields apply.
const adminMessage = "envoy.config.bootstrap.v3.Admin"

// adminFields is for the admin API, which may listen at a Unix socket as nothing else does.
var adminFields = fieldTable{
	"envoy.config.core.v3.Address": {
		"pipe": translateIt,
	},
	"envoy.config.core.v3.Pipe": {
		"path": translateIt,
		"mode": translateIt,
	},
}
