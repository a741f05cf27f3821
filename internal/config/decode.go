// SPDX-License-Identifier: Apache-2.0

package config

import (
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"

	"github.com/xlb-project/xlb/internal/config/document"
	"github.com/xlb-project/xlb/internal/config/schema"
	"github.com/xlb-project/xlb/internal/problem"
)

// decode reads a bootstrap. Values that cannot be decoded are reported and left out, so that the rest of the file is still checked. It returns nil
// when nothing could be read.
func decode(p *problem.List, name string, data []byte, change ...Option) *bootstrapv3.Bootstrap {
	root := document.Read(p, name, data, document.ExpectBootstrap)
	if root == nil {
		return nil
	}
	bootstrap := &bootstrapv3.Bootstrap{}
	document.Respell(bootstrap.ProtoReflect().Descriptor(), root)
	err := document.Decode(root, bootstrap)
	if err == nil {
		return bootstrap
	}

	// protojson stops at the first problem and tells a position in the JSON
	// text. Look for the reasons in the tree, where they have paths.
	var o options
	for _, c := range change {
		c(&o)
	}
	schema.ExplainBootstrap(p, root, o.schema)
	bootstrap = &bootstrapv3.Bootstrap{}
	if document.Decode(root, bootstrap) != nil || len(p.All()) == 0 {
		p.Add("", "%s", document.Reason(err))
		return nil
	}
	return bootstrap
}
