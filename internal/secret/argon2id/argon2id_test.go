package argon2id

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"golang.org/x/crypto/argon2"
)

// TestReferenceVector is a vector of the reference implementation: "password", "somesalt", -id -t 2 -k 65536 -p 1.
func TestReferenceVector(t *testing.T) {
	t.Parallel()
	var m Memory
	got := m.Key([]byte("password"), []byte("somesalt"), Cost{MemoryKiB: 1 << 16, Iterations: 2, Lanes: 1}, 32, nil)
	if want := "09316115d5cf24ed5a15a31a3ba326e5cf32edc24702987c02b6566f61913cf7"; hex.EncodeToString(got) != want {
		t.Errorf("Key = %x, want %s", got, want)
	}
}

// TestSameAsOfAnotherImplementation compares with golang.org/x/crypto for many costs, in memory that is used again.
func TestSameAsOfAnotherImplementation(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var m Memory
	for range 300 {
		c := Cost{MemoryKiB: 1 + r.Uint32N(600), Iterations: 1 + r.Uint32N(4), Lanes: uint8(1 + r.UintN(6))}
		if r.UintN(20) == 0 {
			c.MemoryKiB *= 16
		}
		password, salt := make([]byte, r.UintN(200)), make([]byte, 8+r.UintN(60))
		for _, b := range [][]byte{password, salt} {
			for i := range b {
				b[i] = byte(r.Uint32())
			}
		}
		length := 4 + r.Uint32N(200)
		got := m.Key(password, salt, c, length, func() bool { return false })
		if want := argon2.IDKey(password, salt, c.Iterations, c.MemoryKiB, c.Lanes, length); !bytes.Equal(got, want) {
			t.Fatalf("Key of %+v, %d bytes = %x, want %x", c, length, got, want)
		}
	}
}

// TestMemoryIsKept: a second computation of the same cost allocates next to nothing.
func TestMemoryIsKept(t *testing.T) { //nolint:paralleltest // it counts allocations
	var m Memory
	c := Cost{MemoryKiB: 1 << 10, Iterations: 1, Lanes: 1}
	n := testing.AllocsPerRun(3, func() { m.Key([]byte("p"), []byte("somesalt"), c, 32, nil) })
	if n > 40 || m.KiB() != 1<<10 {
		t.Errorf("%v allocations for each computation, %d KiB kept, want few, 1024", n, m.KiB())
	}
}

func TestStopsBetweenSteps(t *testing.T) {
	t.Parallel()
	var m Memory
	asked := 0
	got := m.Key([]byte("p"), []byte("somesalt"), Cost{MemoryKiB: 64, Iterations: 3, Lanes: 1}, 32, func() bool { asked++; return asked == 6 })
	if got != nil || asked != 6 {
		t.Errorf("Key = %x after %d steps, want nil after the 6th", got, asked)
	}
}

func BenchmarkKey(b *testing.B) {
	c := Cost{MemoryKiB: 19 << 10, Iterations: 2, Lanes: 1}
	b.Run("kept memory", func(b *testing.B) {
		b.ReportAllocs()
		var m Memory
		for b.Loop() {
			m.Key([]byte("password"), []byte("somesaltsomesalt"), c, 32, nil)
		}
	})
	b.Run("x/crypto", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			argon2.IDKey([]byte("password"), []byte("somesaltsomesalt"), c.Iterations, c.MemoryKiB, c.Lanes, 32)
		}
	})
}
