// SPDX-License-Identifier: Apache-2.0

// Package ascii compares and trims what comes off the wire. Protocols are made of bytes, and to them
// two bytes are alike if they are equal, or one letter of ASCII in both cases. Package strings goes
// by Unicode: to it U+212A (KELVIN SIGN) is a k, U+017F a long s, U+0130 an i with lower case, and
// U+00A0 is white space. A text that one reader takes for "chunked" and another for nothing is how a
// request is hidden in another one.
//
// test/imports holds every package to it. This one imports nothing of ours.
package ascii
