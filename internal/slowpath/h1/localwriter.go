// SPDX-License-Identifier: Apache-2.0

package h1

import (
	"net/http"
	"strconv"
	"time"

	"github.com/xlb-project/xlb/internal/head"
)

// replyTimeout bounds the writing of a local answer to a client that may not read.
const replyTimeout = time.Second

// Local writes an answer that comes from no endpoint, and flushes. It adds the fields that frame the body and say whether the connection is kept, and,
// where fields has none, a date and the content type of a text. The answer to HEAD has no body. A client that does not read fails the write after
// replyTimeout.
func (w *Writer) Local(status int, fields []head.Field, body string, view ClientView) error {
	if err := w.conn.SetWriteDeadline(time.Now().Add(replyTimeout)); err != nil {
		return err
	}
	b := appendLocalHead(make([]byte, 0, 512), status, fields, body, view)
	if view.Method != http.MethodHead {
		b = append(b, body...)
	}
	if err := w.WriteThrough(b); err != nil {
		return err
	}
	return w.conn.SetWriteDeadline(time.Time{})
}

func appendLocalHead(b []byte, status int, fields []head.Field, body string, view ClientView) []byte {
	b = append(b, view.Version()...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(status)...)
	b = append(b, "\r\n"...)
	if status != http.StatusNoContent {
		b = appendLength(b, int64(len(body)))
	}
	if body != "" && len(head.Values(fields, "content-type")) == 0 {
		b = appendField(b, "Content-Type", "text/plain")
	}
	for _, f := range fields {
		b = appendField(b, f.Name, f.Value)
	}
	if len(head.Values(fields, "date")) == 0 {
		b = append(b, "Date: "...)
		b = time.Now().UTC().AppendFormat(b, http.TimeFormat)
		b = append(b, "\r\n"...)
	}
	b = append(b, view.persistence()...)
	return append(b, "\r\n"...)
}
