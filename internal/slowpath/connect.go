// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"net/http"
	"time"

	"github.com/xlb-project/xlb/internal/slowpath/h1"
)

// established is Envoy's own answer to CONNECT.
func established() *h1.Response {
	date := time.Now().UTC().Format(http.TimeFormat)
	return &h1.Response{Status: http.StatusOK, Reason: "OK", Fields: []field{{Name: []byte("Date"), Value: []byte(date)}}}
}
