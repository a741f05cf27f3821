// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// defaultScale is what the flags say by default.
func defaultScale() (o scaleOptions) {
	o.addFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return o
}

func TestScaleOptionsNameEveryBadFlag(t *testing.T) {
	if err := defaultScale().validate(); err != nil {
		t.Fatalf("the defaults: %v", err)
	}
	err := scaleOptions{Capacity: -1}.validate()
	if err == nil {
		t.Fatal("validate() accepts everything")
	}
	pflags := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&scaleOptions{}).addFlags(pflags)
	pflags.VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(err.Error(), "--"+f.Name+" ") {
			t.Errorf("validate() does not mention --%s: %v", f.Name, err)
		}
	})
}
