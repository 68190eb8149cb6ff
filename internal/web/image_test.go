package web_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/web"
)

func pngOf(t testing.TB, w, h int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, w, h))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// claims returns a small PNG that claims to have this many pixels on each side.
func claims(t testing.TB, side uint32) []byte {
	t.Helper()
	raw := pngOf(t, 1, 1)
	binary.BigEndian.PutUint32(raw[16:], side)
	binary.BigEndian.PutUint32(raw[20:], side)
	binary.BigEndian.PutUint32(raw[29:], crc32.ChecksumIEEE(raw[12:29]))
	return raw
}

func TestPictures(t *testing.T) {
	t.Parallel()
	var jpg, anim bytes.Buffer
	if err := jpeg.Encode(&jpg, image.NewGray(image.Rect(0, 0, 9, 9)), nil); err != nil {
		t.Fatal(err)
	}
	if err := gif.Encode(&anim, image.NewPaletted(image.Rect(0, 0, 9, 9), color.Palette{color.Black, color.White}), nil); err != nil {
		t.Fatal(err)
	}
	for name, good := range map[string][]byte{
		"png": pngOf(t, 120, 40), "largest": pngOf(t, 2048, 2048),
		"jpeg": jpg.Bytes(), "gif": anim.Bytes(),
	} {
		if err := web.CheckPicture(good); err != nil {
			t.Errorf("CheckPicture(%s) = %v, want none", name, err)
		}
	}
	script := []byte("<script>alert(1)</script>")
	bad := map[string][]byte{
		"nothing": nil, "svg": []byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`),
		"svg with a declaration": []byte(`<?xml version="1.0"?><svg/>`),
		"html":                   []byte("<html>"), "too wide": pngOf(t, 2049, 1), "50,000 pixels": claims(t, 50_000),
		"four thousand million pixels": claims(t, 1<<31-1), "cut": pngOf(t, 9, 9)[:40],
		"20 MB": append(pngOf(t, 1, 1), make([]byte, 20<<20)...), "png and html": append(pngOf(t, 1, 1), script...),
		"jpeg and html":  append(bytes.Clone(jpg.Bytes()), script...),
		"gif and script": append(bytes.Clone(anim.Bytes()), script...), "claims to be larger than it is": claims(t, 2000),
		"webp": []byte("RIFF\x24\x00\x00\x00WEBPVP8 "),
	}
	t.Run("attack 286: a logo is a raster image of a sane size, and nothing else at the same time", func(t *testing.T) {
		t.Parallel()
		for name, raw := range bad {
			if err := web.CheckPicture(raw); err == nil {
				t.Errorf("CheckPicture(%s) = nil, want an error", name)
			}
			if raw == nil {
				continue
			}
			for what, cfg := range map[string]web.Config{
				"brand": {Brand: web.Brand{Logo: raw}}, "icon": {Icons: map[string][]byte{"corp": raw}},
				"client": {Logos: map[string][]byte{"shop": raw}},
			} {
				cfg.Issuer, cfg.Key = "https://auth.example.com", make([]byte, 32)
				if _, err := web.New(cfg); err == nil {
					t.Errorf("New with %s as the picture of a %s succeeded, want an error", name, what)
				}
			}
		}
		if _, err := web.New(web.Config{
			Brand: web.Brand{Logo: pngOf(t, 1, 1), LogoType: "text/html"}, Issuer: "https://auth.example.com",
			Key: make([]byte, 32),
		}); err == nil {
			t.Error("New with a logo of another type than its name says succeeded, want an error")
		}
	})
}

var imgOf = regexp.MustCompile(`<img class="logo" src="([^"]*)" alt="" width="(\d+)" height="(\d+)">`)

func TestClientLogo(t *testing.T) {
	t.Parallel()
	p, err := web.New(web.Config{
		Issuer: "https://auth.example.com", Key: make([]byte, 32), Random: zeros{},
		Logos: map[string][]byte{"shop": pngOf(t, 80, 80), "wide": pngOf(t, 1000, 10)},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sign_in", "choose", "consent"} {
		v := views()[name]
		m := imgOf.FindStringSubmatch(render(p, v).Body.String())
		if m == nil || m[2] != "40" || m[3] != "40" {
			t.Fatalf("page %q shows the picture %q, want 40 by 40", name, m)
		}
		if w := get(p, m[1]); w.Code != http.StatusOK || w.Header().Get("Content-Type") != "image/png" ||
			w.Header().Get("X-Content-Type-Options") != "nosniff" ||
			!strings.Contains(w.Header().Get("Content-Security-Policy"), "sandbox") || strings.Contains(m[1], "shop") {
			t.Errorf("GET %s = %d %v, want the picture, which cannot be anything else", m[1], w.Code, w.Header())
		}
		v.Client.ID = "wide"
		if m := imgOf.FindStringSubmatch(render(p, v).Body.String()); m == nil || m[2] != "240" || m[3] != "2" {
			t.Errorf("page %q shows the wide picture %q, want 240 by 2", name, m)
		}
		v.Client.ID = "other"
		if m := imgOf.FindStringSubmatch(render(p, v).Body.String()); m != nil {
			t.Errorf("page %q shows the picture %q of another client", name, m)
		}
	}
	if w := get(p, "/assets/client-000000000000.png"); w.Code != http.StatusNotFound {
		t.Errorf("GET of a picture that is not there = %d, want 404", w.Code)
	}
}
