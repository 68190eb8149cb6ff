package calllog

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"time"
)

func (b *blockRecord) add(line []byte, c *Call) {
	if b.Count == 0 || c.At.Before(b.Oldest) {
		b.Oldest = c.At
	}
	if end := c.At.Add(c.Took); end.After(b.End) {
		b.End = end
	}
	b.Lines = append(b.Lines, line)
	b.Count++
}

// follow puts the block at the end of a log.
func (b *blockRecord) follow(lane int, head *headRecord) {
	b.First, b.Previous = head.Last+1, head.Hash
	b.Hash = b.sum(lane)
}

// sum is the hash of the block: SHA-256 over all its fields, each text preceded by its length, and over its lane.
func (b *blockRecord) sum(lane int) []byte {
	var buf bytes.Buffer
	text := func(p []byte) {
		buf.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		buf.Write(p)
	}
	text([]byte("gatehouse call block v1"))
	text(b.Previous)
	for _, n := range []uint64{uint64(lane), b.First, b.Count, micros(b.Oldest), micros(b.End), uint64(len(b.Lines))} { //nolint:gosec // only hashed
		buf.Write(binary.BigEndian.AppendUint64(nil, n))
	}
	for _, line := range b.Lines {
		text(line)
	}
	sum := sha256.Sum256(buf.Bytes())
	return sum[:]
}

// micros is a time as storage returns it.
func micros(t time.Time) uint64 { return uint64(t.Round(time.Microsecond).UnixMicro()) } //nolint:gosec // only hashed
