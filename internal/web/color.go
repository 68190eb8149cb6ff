package web

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// color is sRGB, each part from 0 to 1.
type color [3]float64

// parseColor reads #rgb and #rrggbb.
func parseColor(s string) (color, error) {
	hex, ok := strings.CutPrefix(s, "#")
	if len(hex) == 3 {
		hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
	}
	n, err := strconv.ParseUint(hex, 16, 32)
	if !ok || len(hex) != 6 || err != nil {
		return color{}, fmt.Errorf("page: color %q is not of the form #rrggbb", s)
	}
	return color{float64(n>>16) / 255, float64(n>>8&255) / 255, float64(n&255) / 255}, nil
}

func mustColor(s string) color {
	c, err := parseColor(s)
	if err != nil {
		panic(err)
	}
	return c
}

func (c color) String() string {
	b := [3]uint8{}
	for i, v := range c {
		b[i] = uint8(math.Round(min(max(v, 0), 1) * 255))
	}
	return fmt.Sprintf("#%02x%02x%02x", b[0], b[1], b[2])
}

func toLinear(v float64) float64 {
	if v <= 0.04045 {
		return v / 12.92
	}
	return math.Pow((v+0.055)/1.055, 2.4)
}

func gamma(v float64) float64 {
	if v <= 0.0031308 {
		return v * 12.92
	}
	return 1.055*math.Pow(v, 1/2.4) - 0.055
}

// luminance is the relative luminance of WCAG 2.2.
func (c color) luminance() float64 {
	return 0.2126*toLinear(c[0]) + 0.7152*toLinear(c[1]) + 0.0722*toLinear(c[2])
}

// contrast is the contrast ratio of WCAG 2.2: 1 to 21.
func contrast(a, b color) float64 {
	la, lb := a.luminance(), b.luminance()
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

// readable changes the lightness of c (in Oklab, so the hue stays) until its contrast with each of the grounds is at
// least ratio: darker on light grounds, lighter on dark ones.
func (c color) readable(ratio float64, grounds ...color) color {
	lab := c.toOklab()
	step := -0.005
	if grounds[0].luminance() < 0.18 {
		step = 0.005
	}
	for range 200 {
		got := lab.toColor()
		enough := true
		for _, g := range grounds {
			// Compare the color as it will be written, rounded to eight bits.
			enough = enough && contrast(mustColor(got.String()), g) >= ratio
		}
		if enough {
			return got
		}
		lab[0] = min(max(lab[0]+step, 0), 1)
	}
	return lab.toColor()
}

type oklab [3]float64

func (c color) toOklab() oklab {
	r, g, b := toLinear(c[0]), toLinear(c[1]), toLinear(c[2])
	l := math.Cbrt(0.4122214708*r + 0.5363325363*g + 0.0514459929*b)
	m := math.Cbrt(0.2119034982*r + 0.6806995451*g + 0.1073969566*b)
	s := math.Cbrt(0.0883024619*r + 0.2817188376*g + 0.6299787005*b)
	return oklab{
		0.2104542553*l + 0.7936177850*m - 0.0040720468*s,
		1.9779984951*l - 2.4285922050*m + 0.4505937099*s,
		0.0259040371*l + 0.7827717662*m - 0.8086757660*s,
	}
}

// toColor returns the nearest color of this lightness and hue that screens can show, by reducing chroma.
func (o oklab) toColor() color {
	for chroma := 1.0; chroma > 0; chroma -= 0.05 {
		if c := o.linear(chroma); inGamut(c) {
			return color{gamma(max(c[0], 0)), gamma(max(c[1], 0)), gamma(max(c[2], 0))}
		}
	}
	v := gamma(min(max(o[0]*o[0]*o[0], 0), 1))
	return color{v, v, v}
}

func (o oklab) linear(chroma float64) color {
	a, b := o[1]*chroma, o[2]*chroma
	l := math.Pow(o[0]+0.3963377774*a+0.2158037573*b, 3)
	m := math.Pow(o[0]-0.1055613458*a-0.0638541728*b, 3)
	s := math.Pow(o[0]-0.0894841775*a-1.2914855480*b, 3)
	return color{
		4.0767416621*l - 3.3077115913*m + 0.2309699292*s,
		-1.2684380046*l + 2.6097574011*m - 0.3413193965*s,
		-0.0041960863*l - 0.7034186147*m + 1.7076147010*s,
	}
}

func inGamut(c color) bool {
	for _, v := range c {
		if v < -0.0005 || v > 1.0005 {
			return false
		}
	}
	return true
}
