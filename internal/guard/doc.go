// SPDX-License-Identifier: Apache-2.0

// Package guard decides what leaves the fast path after kernel programs have found invariants
// broken, and when it comes back. It is told of events and counts, and answers with decisions; the
// clock is passed in, and nothing here touches the kernel.
//
// The programs have dealt with each event when it is told: they have corrected their accounts,
// ended the lease, or closed the i-sock. What leaves the fast path is served by the daemon, by the
// same rules, and costs more. So the question is who could make others pay that, and the answer
// depends on who can break the invariant:
//
//   - Any client can have its own sends cut, fall short, overtake each other, or go out of band.
//     That costs its own connection the fast path, and nothing else, however often it does so and
//     on however many connections.
//   - Memory that is short in an endpoint cuts messages of whoever sends to it. So do clients that
//     ask for it. An endpoint leaves the fast path for that if clients of several tenants see it,
//     each of them often: one tenant alone can bring it upon his own connections only. A tenant is
//     what users of the machine cannot make more of by themselves; the caller says which
//     (Event.Tenant), and clients of whom it does not know count for none.
//   - Nobody can make an i-sock's sequence number disagree with the bytes that were counted, as
//     far as is known. So one such event takes its client's connection off the fast path. If it
//     happens to clients of more than one tenant it is the endpoint's or the kernel's: the endpoint
//     leaves, and, if it is so with more than one, the whole machine, until somebody has looked.
//   - Bytes that nobody asked for are found in an idle i-sock before anything of a request is moved
//     there, which is why they take nothing off the fast path. A server may close or speak in that
//     very moment, and one that answers early leaves the rest of a body unread.
package guard
