// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/xlb-project/xlb/internal/model"
)

// resolving keeps the names of STRICT_DNS clusters resolved.
type resolving struct {
	n *Node
}

func newResolving(n *Node) *resolving { return &resolving{n: n} }

func (r *resolving) follow(source *model.Config) *model.Config { return source }
