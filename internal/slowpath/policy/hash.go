// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"math/rand/v2"

	"github.com/xlb-project/xlb/internal/hashing"
	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/headers"
)

// Hash decides among the endpoints of a cluster, where that is a matter of hashes.
type Hash struct {
	// Value is drawn where the cluster's policy asks for no hash.
	Value   uint64
	request *headers.Request
	// cookies are for a client that had none to be hashed.
	cookies []string
}

// Find finds out which endpoint of the cluster is the request's, if it is a matter of hashes; without one any is. As in Envoy
// hashes are of the request as the endpoint gets it.
func (h *Hash) Find(r *headers.Request, c *model.Cluster) {
	h.Value = rand.Uint64()
	if !c.Policy.Hashes() {
		return
	}
	policies := r.Route.Hash
	if len(c.Hashing.Policies) > 0 {
		policies = c.Hashing.Policies
	}
	if len(policies) == 0 {
		return
	}
	h.request = r
	asked := r.Asked()
	if hash, ok := policies.Hash(&asked, model.HashSource{IP: sourceIP(r), NewCookie: h.newCookie, Pace: r.Pacer.Pace}); ok {
		h.Value = hash
	}
}

// sourceIP is empty for what is no TCP.
func sourceIP(r *headers.Request) string {
	if a := r.Remote(); a.IsValid() {
		return a.Addr().String()
	}
	return ""
}

// newCookie makes a cookie that the client gets with the endpoint's response. Requests that race on one connection get the same.
func (h *Hash) newCookie(p *model.HashPolicy) string {
	value := fmt.Sprintf("%016x", hashing.Sum(headers.Text(h.request.Remote())+h.request.Conn.LocalAddr().String()))
	h.cookies = append(h.cookies, p.SetCookie(value))
	return value
}

// SetCookies gives the client the cookies that were made for it.
func (h *Hash) SetCookies(fields []head.Field) []head.Field {
	for _, c := range h.cookies {
		fields = append(fields, head.Field{Name: []byte("set-cookie"), Value: []byte(c)})
	}
	return fields
}
