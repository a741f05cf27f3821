// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"net/http"

	"github.com/xlb-project/xlb/internal/explain"
)

// explain answers 400 where the query is wrong.
func (a *api) explain(w http.ResponseWriter, r *http.Request) {
	query, err := queryOf(r)
	if err != nil {
		writeText(w, http.StatusBadRequest, err.Error()+"\n")
		return
	}
	q, err := explain.QueryOf(query)
	if err == nil {
		var answer *explain.Answer
		if answer, err = a.source.Explain(q); err == nil {
			writeJSON(w, answer)
			return
		}
	}
	var wrong *explain.QueryError
	if errors.As(err, &wrong) {
		writeText(w, http.StatusBadRequest, wrong.Error()+"\n")
		return
	}
	writeError(w, err)
}
