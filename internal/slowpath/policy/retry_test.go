// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model"
)

func TestWaitBeforeARetry(t *testing.T) {
	header := func(name, value string) head.Field { return head.Field{Name: []byte(name), Value: []byte(value)} }
	policy := model.Retry{
		Base: 25 * time.Millisecond, Max: 60 * time.Millisecond, ResetMax: 10 * time.Second,
		Resets: []model.RetryReset{{Name: "x-at", UnixTime: true}, {Name: "retry-after"}},
	}
	soon := fmt.Sprint(time.Now().Add(5 * time.Second).Unix())
	for _, tt := range []struct {
		name   string
		fields []head.Field
		// from and to bound the waits of the first, second, third and fourth retry.
		from, to [4]time.Duration
	}{
		{"exponential", nil, [4]time.Duration{}, [4]time.Duration{25 * time.Millisecond, 50 * time.Millisecond, 60 * time.Millisecond, 60 * time.Millisecond}},
		{"seconds", []head.Field{header("Retry-After", "2")}, same(2 * time.Second), same(3*time.Second + 1)},
		{"point in time", []head.Field{header("X-At", soon), header("Retry-After", "2")}, same(3 * time.Second), same(7500*time.Millisecond + 1)},
		{"too long", []head.Field{header("Retry-After", "11")}, [4]time.Duration{}, same(60 * time.Millisecond)},
		{"no number", []head.Field{header("Retry-After", "soon")}, [4]time.Duration{}, same(60 * time.Millisecond)},
		{"in the past", []head.Field{header("X-At", "1")}, [4]time.Duration{}, same(60 * time.Millisecond)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 200 {
				r := Retries{policy: &policy, interval: policy.Base}
				for i := range 4 {
					if got := r.wait(&Outcome{Fields: tt.fields}); got < tt.from[i] || got >= tt.to[i] {
						t.Fatalf("retry %d: %v, want %v to %v", i+1, got, tt.from[i], tt.to[i])
					}
				}
			}
		})
	}
}

func same(d time.Duration) [4]time.Duration { return [4]time.Duration{d, d, d, d} }
