// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/headers"
	"github.com/xlb-project/xlb/internal/upstream"
)

// maxCopies is the number of copies that are made of one request of a client, by all listeners of this process that it and its copies come
// to. Others are left out. Without it they would multiply where a copy comes back to a route that has copies made.
const maxCopies = 128

// Copies is how many copies may be made of a request of that origin, and of those.
func Copies(from upstream.Origin) int {
	if from.Depth == 0 {
		return maxCopies
	}
	return from.Copies
}

// CopiesOfEach is how many copies may be made of a request, and of each of its copies, so that together with these they are no more than left.
func CopiesOfEach(left, copied int) int { return (left - copied) / (copied + 1) }

// MirrorCluster is the name of the cluster that gets a copy of the request.
func MirrorCluster(r *headers.Request, m *model.Mirror) string {
	if m.Header != "" {
		return headers.First(r.Values(m.Header))
	}
	return m.Cluster
}
