// Package faults kills, freezes, fills and breaks the built binary under load, and compares its later answers with a
// ledger of its earlier ones.
package faults

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// Ledger is an append-only file of intents and outcomes: an intent before each request, its outcome after. The checker
// keeps its expectations in memory; the file is for later investigation.
type Ledger struct {
	mu   sync.Mutex // guards the file
	file *os.File
	buf  *bufio.Writer
	next atomic.Int64
	seen []string // the first failures, in words

	// Judge is told of each request without the answer that was wanted. nil: no one is.
	Judge func(op string, a lab.Answer)

	Acked, Refused, Unknown atomic.Int64 // outcomes of all operations
}

type entry struct {
	N       int64       `json:"n"`
	At      int64       `json:"at"` // microseconds since 1970
	Op      string      `json:"op"`
	Client  string      `json:"client,omitempty"`
	Object  string      `json:"object,omitempty"` // the end of the token, enough to find it and too little to use it
	Outcome lab.Outcome `json:"outcome,omitempty"`
	Status  int         `json:"status,omitempty"`
}

// OpenLedger creates the file.
func OpenLedger(name string) (*Ledger, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &Ledger{file: f, buf: bufio.NewWriterSize(f, 1<<16)}, nil
}

func (l *Ledger) write(e entry) {
	e.At = time.Now().UnixMicro()
	b, err := json.Marshal(e)
	if err != nil {
		panic(err) // numbers and strings always encode
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.buf.Write(append(b, '\n')) // Sync returns the error
}

// Do writes the intent, sends the request and writes its outcome.
func (l *Ledger) Do(op, client, object string, send func() lab.Answer) (lab.Answer, lab.Outcome) {
	n := l.next.Add(1)
	l.write(entry{N: n, Op: op, Client: client, Object: tail(object)})
	a := send()
	out := a.Outcome()
	switch out {
	case lab.OK:
		l.Acked.Add(1)
	case lab.Refused:
		l.Refused.Add(1)
	case lab.Unknown:
		l.Unknown.Add(1)
		l.fail(op, a)
	}
	l.write(entry{N: n, Op: op, Client: client, Object: tail(object), Outcome: out, Status: a.Status})
	return a, out
}

// fail keeps the first failures as text, for tests that expect none.
func (l *Ledger) fail(op string, a lab.Answer) {
	if l.Judge != nil {
		l.Judge(op, a)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.seen) < 8 {
		l.seen = append(l.seen, fmt.Sprintf("%s: %d %.120s %v", op, a.Status, a.Body, a.Err))
	}
}

// Failures returns the text of the first failures.
func (l *Ledger) Failures() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seen)
}

// Sync makes what was written durable.
func (l *Ledger) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.buf.Flush(); err != nil {
		return err
	}
	return l.file.Sync()
}

// Close syncs and closes the file.
func (l *Ledger) Close() error {
	err := l.Sync()
	return errorsJoin(err, l.file.Close())
}

func tail(token string) string { return token[max(0, len(token)-8):] }
