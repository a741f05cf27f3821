// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/config/schema"
)

func TestDumpOfABootstrapHasNoSecrets(t *testing.T) {
	b := dynamicBootstrap(t)
	control := schema.ClusterNamed(b.message, schema.ControlCluster(b.message))
	if control == nil {
		t.Fatal("there is no cluster of a control plane")
	}
	shown, cluster := b.Dump("v1.20.3-4-gabcdef"), b.Control()
	build := shown.GetNode().GetUserAgentBuildVersion()
	if v := build.GetVersion(); v.GetMajorNumber() != 1 || v.GetMinorNumber() != 20 || v.GetPatch() != 3 || shown.GetNode().GetUserAgentName() != userAgent {
		t.Errorf("node: %v", shown.GetNode())
	}
	if shown.GetStaticResources() != nil || cluster.GetName() != control.GetName() || cluster.GetTransportSocket() != nil {
		t.Errorf("shown: %v, %v", shown, cluster)
	}
	if other := buildVersion("fdfc9ae"); other.GetVersion().GetMajorNumber() != 0 || !strings.Contains(other.String(), "fdfc9ae") {
		t.Errorf("a version without numbers: %v", other)
	}
	if b.message.GetNode().GetUserAgentVersionType() != nil {
		t.Error("the bootstrap itself has changed")
	}
}
