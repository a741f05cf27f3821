// SPDX-License-Identifier: Apache-2.0

package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/xlb-project/xlb/internal/ascii"
)

// asciiSpace is what absl::ascii_isspace takes for white space.
const asciiSpace = " \t\n\v\f\r"

// truth takes a bool, and the words that absl::SimpleAtob does, but no number.
func truth(value any) (any, bool) {
	word, ok := value.(string)
	if !ok {
		_, ok = value.(bool)
		return value, ok
	}
	switch ascii.Lower(word) {
	case "true", "t", "yes", "y", "1":
		return true, true
	case "false", "f", "no", "n", "0":
		return false, true
	}
	return nil, false
}

// integral takes a number and a string with one, with a fraction of 0 and an exponent too, as 5.0 and 1e3.
func integral(kind protoreflect.Kind, value any) (any, bool) {
	text, ok := numeral(value)
	if !ok || strings.ContainsAny(text, asciiSpace) {
		return nil, false
	}
	switch kind {
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return unsigned(text, math.MaxUint32)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return unsigned(text, math.MaxUint64)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return signed(text, math.MinInt64, math.MaxInt64)
	default:
		return signed(text, math.MinInt32, math.MaxInt32)
	}
}

// Where a whole number is written with a fraction or an exponent, protobuf trusts no double beyond these bounds.
const (
	maxSigned   = 1 << 53
	maxUnsigned = 1 << 54
)

func unsigned(text string, highest uint64) (any, bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "+"), 10, 64)
	if err != nil {
		d, ok := wholeNumber(text, 0, maxUnsigned)
		if !ok {
			return nil, false
		}
		n = uint64(d)
	}
	return json.Number(strconv.FormatUint(n, 10)), n <= highest
}

func signed(text string, lowest, highest int64) (any, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		d, ok := wholeNumber(text, -maxSigned, maxSigned)
		if !ok {
			return nil, false
		}
		n = int64(d)
	}
	return json.Number(strconv.FormatInt(n, 10)), lowest <= n && n <= highest
}

// numeral is the text of what may be a number.
func numeral(value any) (string, bool) {
	switch v := value.(type) {
	case json.Number:
		return v.String(), true
	case string:
		return v, true
	}
	return "", false
}

func wholeNumber(text string, low, high float64) (float64, bool) {
	d, ok := double(text)
	return d, ok && d >= low && d <= high && d == math.Trunc(d)
}

// double reads a number as absl::SimpleAtod does: hexadecimal ones too, with an exponent of 2 or without, "inf" and "nan". What is too large is infinite.
func double(text string) (float64, bool) {
	text = strings.Trim(text, asciiSpace)
	digits, plus := strings.CutPrefix(text, "+")
	if plus && strings.HasPrefix(digits, "-") || strings.HasPrefix(digits, "+") || strings.Contains(digits, "_") {
		return 0, false
	}
	if strings.HasPrefix(ascii.Lower(strings.TrimPrefix(digits, "-")), "0x") && !strings.ContainsAny(digits, "pP") {
		digits += "p0"
	}
	d, err := strconv.ParseFloat(digits, 64)
	return d, err == nil || errors.Is(err, strconv.ErrRange)
}

// floating takes a number, and a string with one. That of a float is refused where it is decoded if it is out of range.
func floating(value any) (any, bool) {
	text, isText := value.(string)
	if !isText {
		_, ok := value.(json.Number)
		return value, ok
	}
	d, ok := double(text)
	switch {
	case math.IsNaN(d):
		return "NaN", ok
	case math.IsInf(d, 1):
		return "Infinity", ok
	case math.IsInf(d, -1):
		return "-Infinity", ok
	}
	return json.Number(strconv.FormatFloat(d, 'g', -1, 64)), ok
}

// enumValue takes the name of a value in upper and lower case, and its number.
func enumValue(desc protoreflect.EnumDescriptor, value any) (any, bool) {
	text, isText := value.(string)
	if !isText {
		return integral(protoreflect.Int32Kind, value)
	}
	values := desc.Values()
	for i := range values.Len() {
		if name := string(values.Get(i).Name()); ascii.EqualFold(name, text) {
			return name, true
		}
	}
	n, err := strconv.ParseInt(strings.Trim(text, asciiSpace), 10, 32)
	return json.Number(strconv.FormatInt(n, 10)), err == nil
}

var (
	base64Digits = regexp.MustCompile(`^[-+/_A-Za-z0-9]*$`)
	standard     = strings.NewReplacer("-", "+", "_", "/")
)

// base64Text takes base64 with the digits of either alphabet, padded or not, without a line break.
func base64Text(value any) (any, bool) {
	text, ok := value.(string)
	if !ok {
		return nil, false
	}
	if len(text)%4 == 0 {
		text = strings.TrimSuffix(strings.TrimSuffix(text, "="), "=")
	}
	return standard.Replace(text), base64Digits.MatchString(text) && len(text)%4 != 1
}

var durationText = regexp.MustCompile(`^(-?[0-9]+)(?:\.([0-9]{1,9}))?s$`)

// maxSeconds is the range of google.protobuf.Duration, some 10,000 years.
const maxSeconds = 3652500 * 86400

// durationOf takes "1.5s", and {seconds: 1, nanos: 500000000}, whose parts have to have one sign.
func durationOf(desc protoreflect.MessageDescriptor, value any) any {
	var seconds, nanos int64
	ok := false
	switch v := value.(type) {
	case map[string]any:
		seconds, nanos, ok = secondsAndNanos(desc, v)
	case string:
		parts := durationText.FindStringSubmatch(v)
		if parts == nil {
			return Misspelt{value}
		}
		var err error
		seconds, err = strconv.ParseInt(parts[1], 10, 64)
		ok = err == nil
		nanos, _ = strconv.ParseInt((parts[2] + "000000000")[:9], 10, 64) // digits
		if strings.HasPrefix(v, "-") {
			nanos = -nanos
		}
	}
	if !ok || max(seconds, -seconds) > maxSeconds || max(nanos, -nanos) >= 1e9 || seconds < 0 && nanos > 0 || seconds > 0 && nanos < 0 {
		return Misspelt{value}
	}
	sign := ""
	if seconds < 0 || nanos < 0 {
		sign, seconds, nanos = "-", -seconds, -nanos
	}
	return fmt.Sprintf("%s%d.%09ds", sign, seconds, nanos)
}

// timestampOf takes {seconds: 1, nanos: 500000000} since 1970.
func timestampOf(desc protoreflect.MessageDescriptor, object map[string]any) any {
	seconds, nanos, ok := secondsAndNanos(desc, object)
	if !ok || nanos < 0 || nanos >= 1e9 {
		return Misspelt{object}
	}
	return time.Unix(seconds, nanos).UTC().Format(time.RFC3339Nano)
}

// secondsAndNanos are the fields of a Duration or Timestamp, 0 where they are absent.
func secondsAndNanos(desc protoreflect.MessageDescriptor, object map[string]any) (seconds, nanos int64, ok bool) {
	into := map[string]*int64{"seconds": &seconds, "nanos": &nanos}
	for name, value := range object {
		part := into[name]
		if part == nil {
			return 0, 0, false
		}
		if value == nil {
			continue
		}
		n, spelt := single(desc.Fields().ByName(protoreflect.Name(name)), value).(json.Number)
		if !spelt {
			return 0, 0, false
		}
		*part, _ = n.Int64() // integral has seen it
	}
	return seconds, nanos, true
}
