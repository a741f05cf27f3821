// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"fmt"
	"math/rand/v2"

	"github.com/xlb-project/xlb/internal/hashing"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/headers"
)

// hashRequest finds out which endpoint of the cluster is the request's, if it is a matter of hashes; without one any is. As in Envoy
// hashes are of the request as the endpoint gets it.
func (x *exchange) hashRequest(c *model.Cluster) {
	x.hash = rand.Uint64()
	if !c.Policy.Hashes() {
		return
	}
	policies := x.Route.Hash
	if len(c.Hashing.Policies) > 0 {
		policies = c.Hashing.Policies
	}
	if len(policies) == 0 {
		return
	}
	asked := x.Asked()
	if hash, ok := policies.Hash(&asked, model.HashSource{IP: x.sourceIP(), NewCookie: x.newCookie, Pace: x.Pace}); ok {
		x.hash = hash
	}
}

// sourceIP is empty for what is no TCP.
func (x *exchange) sourceIP() string {
	if a := x.Remote(); a.IsValid() {
		return a.Addr().String()
	}
	return ""
}

// newCookie makes a cookie that the client gets with the endpoint's response. Requests that race on one connection get the same.
func (x *exchange) newCookie(p *model.HashPolicy) string {
	value := fmt.Sprintf("%016x", hashing.Sum(headers.Text(x.Remote())+x.conn.LocalAddr().String()))
	x.cookies = append(x.cookies, p.SetCookie(value))
	return value
}

// setCookies gives the client the cookies that were made for it.
func (x *exchange) setCookies(fields []field) []field {
	for _, c := range x.cookies {
		fields = append(fields, field{Name: []byte("set-cookie"), Value: []byte(c)})
	}
	return fields
}
