// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"context"

	"github.com/xlb-project/xlb/test/pods"
)

// runPods has pods come and go as its specification, a pods.ChurnSpec, says, and answers with a pods.ChurnReport when the last has gone.
func runPods(s *stdio) error {
	var spec pods.ChurnSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	return s.answer(pods.Churn(context.Background(), spec))
}
