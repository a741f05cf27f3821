// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"strings"
	"testing"
)

func TestLabelsSayWhetherAPodIsBalanced(t *testing.T) {
	tests := []struct {
		name   string
		labels map[string]string
		want   Wish
	}{
		{"no labels", nil, Wish{}},
		{"other labels", map[string]string{"app": "web", "istio.io/rev": "none"}, Wish{}},
		{"Istio's none", map[string]string{IstioLabel: "none"}, Wish{Choice: Out, Label: "istio.io/dataplane-mode: none"}},
		{"Istio's label for XLB", map[string]string{IstioLabel: "xlb"}, Wish{Choice: In, Label: "istio.io/dataplane-mode: xlb"}},
		{"another data plane", map[string]string{IstioLabel: "ambient"}, Wish{}},
		{"Istio's label in upper case", map[string]string{IstioLabel: "None"}, Wish{}},
		{"in", map[string]string{Label: "true"}, Wish{Choice: In, Label: "xlb-project.github.io/balance: true"}},
		{"out", map[string]string{Label: "false"}, Wish{Choice: Out, Label: "xlb-project.github.io/balance: false"}},
		{"in goes before Istio's", map[string]string{Label: "true", IstioLabel: "none"}, Wish{Choice: In, Label: "xlb-project.github.io/balance: true"}},
		{"out goes before Istio's", map[string]string{Label: "false", IstioLabel: "xlb"}, Wish{Choice: Out, Label: "xlb-project.github.io/balance: false"}},
		{"another value", map[string]string{Label: "no"}, Wish{Unread: "xlb-project.github.io/balance: no"}},
		{"empty value", map[string]string{Label: ""}, Wish{Unread: "xlb-project.github.io/balance: "}},
		{
			"Istio's beside another value", map[string]string{Label: "False", IstioLabel: "none"},
			Wish{Choice: Out, Label: "istio.io/dataplane-mode: none", Unread: "xlb-project.github.io/balance: False"},
		},
		{"long value", map[string]string{Label: strings.Repeat("a", 1000)}, Wish{Unread: "xlb-project.github.io/balance: " + strings.Repeat("a", 63)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := WishOf(tt.labels); got != tt.want {
				t.Errorf("WishOf(%v) = %+v, want %+v", tt.labels, got, tt.want)
			}
		})
	}
}
