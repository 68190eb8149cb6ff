// Package argon2id computes Argon2id (RFC 9106, version 1.3) in the goroutine of its caller and in memory that the
// caller keeps. golang.org/x/crypto/argon2 starts goroutines for each slice, which run on any thread, and allocates
// memory for each computation; its results are the oracle of the tests here
// (docs/decisions/sign-in.md#password-hashes).
package argon2id

import (
	"encoding/binary"
	"math/bits"

	"golang.org/x/crypto/blake2b"
)

// Version is the version number 1.3 of the algorithm.
const Version = 0x13

const (
	words      = 128 // of 64 bits in a block
	blockBytes = 8 * words
	slices     = 4 // synchronization points in a pass (RFC 9106 3.4)
	kind       = 2 // y in RFC 9106 3.2: Argon2id
)

type block [words]uint64

// Cost says what a computation costs.
type Cost struct {
	MemoryKiB, Iterations uint32
	Lanes                 uint8
}

// Memory is the memory that computations fill, one at a time. The zero Memory is ready to use.
type Memory struct{ blocks []block }

// KiB returns how much is kept for the next computation.
func (m *Memory) KiB() int { return len(m.blocks) }

// take returns n blocks with any content.
func (m *Memory) take(n uint32) []block {
	if len(m.blocks) != int(n) {
		m.blocks = nil // before the new ones are there, so both never are
		m.blocks = make([]block, n)
	}
	return m.blocks
}

// Key returns length bytes derived from a password and a salt. Before each of 4 × Iterations steps it asks stop, which
// can be nil, and returns nil when told to stop.
func (m *Memory) Key(password, salt []byte, c Cost, length uint32, stop func() bool) []byte {
	lanes := uint32(c.Lanes)
	size := max(c.MemoryKiB/(slices*lanes), 2) * slices * lanes // m' in RFC 9106 3.2
	f := filler{blocks: m.take(size), lanes: lanes, columns: size / lanes, passes: c.Iterations}
	f.first(digest(password, salt, c, length))
	for pass := range c.Iterations {
		for slice := range uint32(slices) {
			if stop != nil && stop() {
				return nil
			}
			for lane := range lanes {
				f.segment(pass, slice, lane)
			}
		}
	}
	return f.tag(length)
}

// digest is H0 (RFC 9106 3.2), without a secret and associated data.
func digest(password, salt []byte, c Cost, length uint32) [blake2b.Size]byte {
	var b []byte
	for _, n := range []uint32{uint32(c.Lanes), length, c.MemoryKiB, c.Iterations, Version, kind} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	for _, part := range [][]byte{password, salt, nil, nil} {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(part))) //nolint:gosec // passwords and salts are short
		b = append(b, part...)
	}
	sum := blake2b.Sum512(b)
	clear(b)
	return sum
}

// stretch is H' (RFC 9106 3.3): it fills out from in.
func stretch(out, in []byte) {
	b := append(binary.LittleEndian.AppendUint32(nil, uint32(len(out))), in...) //nolint:gosec // at most a block
	if len(out) <= blake2b.Size {
		h, _ := blake2b.New(len(out), nil) // never fails: the size is in range and there is no key
		_, _ = h.Write(b)
		h.Sum(out[:0])
		return
	}
	v := blake2b.Sum512(b)
	const half = blake2b.Size / 2
	for len(out) > blake2b.Size {
		copy(out, v[:half])
		if out = out[half:]; len(out) > blake2b.Size {
			v = blake2b.Sum512(v[:])
		}
	}
	h, _ := blake2b.New(len(out), nil) // never fails
	_, _ = h.Write(v[:])
	h.Sum(out[:0])
}

// filler fills the matrix of blocks: lanes rows of so many columns.
type filler struct {
	blocks                 []block
	lanes, columns, passes uint32
}

// first computes the first two blocks of each lane.
func (f *filler) first(h0 [blake2b.Size]byte) {
	in := append(h0[:], make([]byte, 8)...)
	var raw [blockBytes]byte
	for lane := range f.lanes {
		for column := range uint32(2) {
			binary.LittleEndian.PutUint32(in[blake2b.Size:], column)
			binary.LittleEndian.PutUint32(in[blake2b.Size+4:], lane)
			stretch(raw[:], in)
			b := &f.blocks[lane*f.columns+column]
			for i := range b {
				b[i] = binary.LittleEndian.Uint64(raw[8*i:])
			}
		}
	}
}

// segment computes a quarter of a lane.
func (f *filler) segment(pass, slice, lane uint32) {
	// Argon2id chooses blocks independently of the password in the first half of the first pass (RFC 9106 3.4.1.3)
	independent := pass == 0 && slice < slices/2
	var input, addresses, zero block
	if independent {
		input = block{uint64(pass), uint64(lane), uint64(slice), uint64(f.lanes * f.columns), uint64(f.passes), kind}
	}
	length := f.columns / slices
	row := f.blocks[lane*f.columns:][:f.columns]
	begin := uint32(0)
	if pass == 0 && slice == 0 {
		begin = 2 // first has computed them
	}
	for i := begin; i < length; i++ {
		if independent && (i%words == 0 || i == begin) {
			input[6]++
			mix(&addresses, &zero, &input, false)
			mix(&addresses, &zero, &addresses, false)
		}
		column := slice*length + i
		previous := column - 1
		if column == 0 {
			previous = f.columns - 1
		}
		pseudo := row[previous][0]
		if independent {
			pseudo = addresses[i%words]
		}
		from, at := f.reference(pseudo, pass, slice, lane, i)
		mix(&row[column], &row[previous], &f.blocks[from*f.columns+at], pass > 0)
	}
}

// reference returns lane and column of the block that is mixed in (RFC 9106 3.4.2).
func (f *filler) reference(pseudo uint64, pass, slice, lane, i uint32) (from, at uint32) {
	length := f.columns / slices
	from = lane
	if pass > 0 || slice > 0 {
		from = uint32(pseudo>>32) % f.lanes
	}
	// The window: what is complete in that lane, and in the own lane what was computed just now.
	window, start := slice*length, uint32(0)
	if pass > 0 {
		window, start = f.columns-length, (slice+1)%slices*length
	}
	switch {
	case from == lane:
		window += i - 1
	case i == 0:
		window--
	}
	x := pseudo & 0xffffffff
	x = x * x >> 32
	y := uint64(window) * x >> 32
	return from, uint32((uint64(start) + uint64(window) - 1 - y) % uint64(f.columns)) //nolint:gosec // below columns
}

// tag is the result, from the last column.
func (f *filler) tag(length uint32) []byte {
	last := f.blocks[f.columns-1]
	for lane := uint32(1); lane < f.lanes; lane++ {
		for i, w := range f.blocks[(lane+1)*f.columns-1] {
			last[i] ^= w
		}
	}
	raw := make([]byte, 0, blockBytes)
	for _, w := range last {
		raw = binary.LittleEndian.AppendUint64(raw, w)
	}
	out := make([]byte, length)
	stretch(out, raw)
	return out
}

// mix writes the compression of x and y (RFC 9106 3.5) to out, or with over xors it into out. They can be one block.
func mix(out, x, y *block, over bool) {
	var q, r block
	for i := range r {
		v := x[i] ^ y[i]
		q[i], r[i] = v, v
	}
	for i := 0; i < words; i += 16 {
		permute(&r, i, i+2, i+4, i+6, i+8, i+10, i+12, i+14)
	}
	for i := 0; i < 16; i += 2 {
		permute(&r, i, i+16, i+32, i+48, i+64, i+80, i+96, i+112)
	}
	if over {
		for i := range q {
			out[i] ^= q[i] ^ r[i]
		}
		return
	}
	for i := range q {
		out[i] = q[i] ^ r[i]
	}
}

// permute is P (RFC 9106 3.6) on eight pairs of words that begin at these indexes.
func permute(r *block, i0, i1, i2, i3, i4, i5, i6, i7 int) {
	const mask = words - 2
	p0, p1, p2, p3 := (*[2]uint64)(r[i0&mask:]), (*[2]uint64)(r[i1&mask:]), (*[2]uint64)(r[i2&mask:]), (*[2]uint64)(r[i3&mask:])
	p4, p5, p6, p7 := (*[2]uint64)(r[i4&mask:]), (*[2]uint64)(r[i5&mask:]), (*[2]uint64)(r[i6&mask:]), (*[2]uint64)(r[i7&mask:])
	v0, v1, v2, v3, v4, v5, v6, v7 := p0[0], p0[1], p1[0], p1[1], p2[0], p2[1], p3[0], p3[1]
	v8, v9, v10, v11, v12, v13, v14, v15 := p4[0], p4[1], p5[0], p5[1], p6[0], p6[1], p7[0], p7[1]

	v0, v4, v8, v12 = upper(v0, v4, v8, v12)
	v0, v4, v8, v12 = lower(v0, v4, v8, v12)
	v1, v5, v9, v13 = upper(v1, v5, v9, v13)
	v1, v5, v9, v13 = lower(v1, v5, v9, v13)
	v2, v6, v10, v14 = upper(v2, v6, v10, v14)
	v2, v6, v10, v14 = lower(v2, v6, v10, v14)
	v3, v7, v11, v15 = upper(v3, v7, v11, v15)
	v3, v7, v11, v15 = lower(v3, v7, v11, v15)

	v0, v5, v10, v15 = upper(v0, v5, v10, v15)
	v0, v5, v10, v15 = lower(v0, v5, v10, v15)
	v1, v6, v11, v12 = upper(v1, v6, v11, v12)
	v1, v6, v11, v12 = lower(v1, v6, v11, v12)
	v2, v7, v8, v13 = upper(v2, v7, v8, v13)
	v2, v7, v8, v13 = lower(v2, v7, v8, v13)
	v3, v4, v9, v14 = upper(v3, v4, v9, v14)
	v3, v4, v9, v14 = lower(v3, v4, v9, v14)

	*p0, *p1, *p2, *p3 = [2]uint64{v0, v1}, [2]uint64{v2, v3}, [2]uint64{v4, v5}, [2]uint64{v6, v7}
	*p4, *p5, *p6, *p7 = [2]uint64{v8, v9}, [2]uint64{v10, v11}, [2]uint64{v12, v13}, [2]uint64{v14, v15}
}

// upper and lower are the halves of GB (RFC 9106 3.6), each small enough to be compiled into permute.
func upper(a, b, c, d uint64) (uint64, uint64, uint64, uint64) {
	a += b + 2*uint64(uint32(a))*uint64(uint32(b))
	d = bits.RotateLeft64(d^a, -32)
	c += d + 2*uint64(uint32(c))*uint64(uint32(d))
	return a, bits.RotateLeft64(b^c, -24), c, d
}

func lower(a, b, c, d uint64) (uint64, uint64, uint64, uint64) {
	a += b + 2*uint64(uint32(a))*uint64(uint32(b))
	d = bits.RotateLeft64(d^a, -16)
	c += d + 2*uint64(uint32(c))*uint64(uint32(d))
	return a, bits.RotateLeft64(b^c, -63), c, d
}
