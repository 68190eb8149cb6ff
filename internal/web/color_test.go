package web

import (
	"fmt"
	"testing"
)

// TestContrast computes the contrast of everything that the stylesheet puts on something else. (WCAG 2.2, 1.4.3 and
// 1.4.11)
func TestContrast(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]palette{"light": light, "dark": dark} {
		for _, c := range []struct {
			fore, back string
			least      float64
		}{
			{"ink", "paper", 7},
			{"ink", "card", 7},
			{"ink-soft", "paper", 4.5},
			{"ink-soft", "card", 4.5},
			{"edge", "card", 3},
			{"edge", "paper", 3},
			{"good", "card", 4.5},
			{"good", "good-soft", 4.5},
			{"bad", "card", 4.5},
			{"bad", "bad-soft", 4.5},
			{"bad", "paper", 4.5},
			{"warn", "card", 4.5},
			{"warn", "warn-soft", 4.5},
			{"ink", "good-soft", 4.5},
			{"ink", "bad-soft", 4.5},
			{"ink", "warn-soft", 4.5},
		} {
			if got := contrast(p.get(c.fore), p.get(c.back)); got < c.least {
				t.Errorf("%s: %s on %s has contrast %.2f, want %.1f", name, c.fore, c.back, got, c.least)
			}
		}
		for r := 0; r < 256; r += 51 {
			for g := 0; g < 256; g += 51 {
				for b := 0; b < 256; b += 51 {
					brand := fmt.Sprintf("#%02x%02x%02x", r, g, b)
					accent, ink := p.accent(mustColor(brand))
					accent = mustColor(accent.String()) // as written
					for _, ground := range []string{"card", "paper"} {
						if got := contrast(accent, p.get(ground)); got < 4.5 {
							t.Errorf("%s: brand %s becomes %s, contrast %.2f on %s, want 4.5", name, brand, accent, got, ground)
						}
					}
					if got := contrast(accent, ink); got < 4.5 {
						t.Errorf("%s: brand %s becomes %s, contrast %.2f to its text, want 4.5", name, brand, accent, got)
					}
				}
			}
		}
	}
}

func TestContrastIsThatOfWCAG(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want string
	}{{"#000", "#fff", "21.00"}, {"#777777", "#ffffff", "4.48"}, {"#0000ff", "#ffffff", "8.59"}, {"#ff0000", "#ffffff", "4.00"}} {
		if got := fmt.Sprintf("%.2f", contrast(mustColor(c.a), mustColor(c.b))); got != c.want {
			t.Errorf("contrast(%s, %s) = %s, want %s", c.a, c.b, got, c.want)
		}
	}
}

func TestReadableLeavesGoodColors(t *testing.T) {
	t.Parallel()
	if got := mustColor("#1a4fd6").readable(4.5, mustColor("#ffffff")).String(); got != "#1a4fd6" {
		t.Errorf("readable changed a color that can be read to %s", got)
	}
}

func TestParseColor(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "#", "red", "#12", "#1234", "#12345g", "123456", "#1234567", "#+12345"} {
		if c, err := parseColor(bad); err == nil {
			t.Errorf("parseColor(%q) = %v, want an error", bad, c)
		}
	}
	if c, err := parseColor("#0Af"); err != nil || c.String() != "#00aaff" {
		t.Errorf("parseColor(#0Af) = %v, %v", c, err)
	}
}
