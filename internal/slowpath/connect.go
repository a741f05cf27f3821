// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"net/http"
	"time"
)

// established is Envoy's own answer to CONNECT.
func established() *response {
	date := time.Now().UTC().Format(http.TimeFormat)
	return &response{status: http.StatusOK, reason: "OK", fields: []field{{Name: []byte("Date"), Value: []byte(date)}}}
}
