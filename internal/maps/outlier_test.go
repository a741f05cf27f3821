// SPDX-License-Identifier: Apache-2.0

package maps

import "testing"

func TestErrorsInARowReachTheirLimits(t *testing.T) {
	const both = OutlierErrors | OutlierGatewayErrors
	tests := []struct {
		name     string
		statuses []int
		want     []Outlier // after each
	}{
		{"gateway errors are errors", []int{502, 503, 504}, []Outlier{0, OutlierGatewayErrors, OutlierErrors}},
		{"others are no gateway errors", []int{500, 505, 501, 503}, []Outlier{0, 0, OutlierErrors, 0}},
		{"another error ends a row of gateway errors", []int{503, 500, 503}, []Outlier{0, 0, OutlierErrors}},
		{"a success ends both rows", []int{503, 200, 503, 404, 503, 503}, []Outlier{0, 0, 0, 0, 0, OutlierGatewayErrors}},
		{"a limit is reached once", []int{503, 503, 503, 503, 503}, []Outlier{0, OutlierGatewayErrors, OutlierErrors, 0, 0}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := NewHeapShared(Sizes{Endpoints: 1})
			s.SetErrorLimits(0, 3, 2)
			for i, status := range test.statuses {
				if got := s.CountStatus(0, status); got != test.want[i] {
					t.Errorf("response %d, %d: reached %b, want %b", i, status, got, test.want[i])
				}
			}
		})
	}

	s := NewHeapShared(Sizes{Endpoints: 1})
	s.SetErrorLimits(0, 3, 2)
	for range 5 {
		s.CountStatus(0, 503)
	}
	if got := s.ReachedLimits(0); got != both {
		t.Errorf("limits that have been passed: %b, want %b", got, both)
	}
	s.ForgetErrors(0, OutlierGatewayErrors)
	if got := s.ReachedLimits(0); got != OutlierErrors {
		t.Errorf("behind a new count of gateway errors: %b, want %b", got, OutlierErrors)
	}
}

func TestNothingIsCountedWithoutLimits(t *testing.T) {
	s := NewHeapShared(Sizes{Endpoints: 1})
	for range 3 {
		if got := s.CountStatus(0, 503); got != 0 {
			t.Fatalf("reached %b", got)
		}
	}
	if e := s.Endpoints[0]; e.Errors != 0 || e.GatewayErrors != 0 || s.ReachedLimits(0) != 0 {
		t.Errorf("counted %d and %d errors", e.Errors, e.GatewayErrors)
	}
}
