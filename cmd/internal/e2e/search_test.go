package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/musterhq/muster/eventlog"
)

// forms are the ways in which a text may stand in a file: as it is (in msgpack, too),
// as a token of a subject, escaped in a URL or in JSON, in hex, and in base64 of either
// alphabet, wherever in the encoded bytes it begins.
func forms(text string) map[string]string {
	quoted, _ := json.Marshal(text) // a string always is
	var percent, unicode string
	for i := range len(text) {
		percent += "%" + hex.EncodeToString([]byte{text[i]})
		unicode += `\u00` + hex.EncodeToString([]byte{text[i]})
	}
	out := map[string]string{
		"plain": text, "subject": eventlog.Token(text), "percent": percent, "JSON": string(bytes.Trim(quoted, `"`)), "unicode": unicode,
		"hex": hex.EncodeToString([]byte(text)),
	}
	for shift := range 3 {
		// The characters that depend on nothing but the text.
		padded := append(make([]byte, shift), text...)
		from, to := (shift*8+5)/6, len(padded)*8/6
		out["base64"+string(rune('0'+shift))] = base64.StdEncoding.EncodeToString(padded)[from:to]
		out["base64url"+string(rune('0'+shift))] = base64.URLEncoding.EncodeToString(padded)[from:to]
	}
	return out
}

// unpacked are a file's bytes, and those of all compressed streams that begin anywhere
// within it: zstd, gzip, S2.
func unpacked(content []byte) [][]byte {
	all := [][]byte{content}
	for magic, open := range map[string]func([]byte) io.Reader{
		"\x28\xb5\x2f\xfd": func(b []byte) io.Reader {
			z, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1))
			if err != nil {
				return nil
			}
			return z
		},
		"\x1f\x8b\x08": func(b []byte) io.Reader {
			z, err := gzip.NewReader(bytes.NewReader(b))
			if err != nil {
				return nil
			}
			z.Multistream(false)
			return z
		},
		"\xff\x06\x00\x00": func(b []byte) io.Reader { return s2.NewReader(bytes.NewReader(b)) },
	} {
		for at := 0; ; at++ {
			i := bytes.Index(content[at:], []byte(magic))
			if i < 0 {
				break
			}
			at += i
			r := open(content[at:])
			if r == nil {
				continue
			}
			var out bytes.Buffer
			_, _ = io.Copy(&out, io.LimitReader(r, 64<<20)) // what comes before an error counts, too
			if z, ok := r.(*zstd.Decoder); ok {
				z.Close()
			}
			if out.Len() > 0 {
				all = append(all, out.Bytes())
			}
		}
	}
	return all
}

// holding lists the files below the folders that hold one of the texts, in whatever form.
func holding(t *testing.T, texts []string, dirs ...string) (found []string) {
	t.Helper()
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			found = append(found, holds(path, content, texts)...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func holds(path string, content []byte, texts []string) (found []string) {
	for layer, b := range unpacked(content) {
		for _, text := range texts {
			for form, s := range forms(text) {
				if bytes.Contains(b, []byte(s)) {
					where := path
					if layer > 0 {
						where += " (unpacked)"
					}
					found = append(found, where+": "+text+", "+form)
				}
			}
		}
	}
	return found
}

// TestTheSearchFinds: a search that finds nothing proves something only if it would
// have found it.
func TestTheSearchFinds(t *testing.T) {
	text := "+15550100001"
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	var zipped, snappy bytes.Buffer
	g := gzip.NewWriter(&zipped)
	_, _ = g.Write([]byte("a " + text)) // into memory
	_ = g.Close()
	s := s2.NewWriter(&snappy)
	_, _ = s.Write([]byte("a " + text))
	_ = s.Close()
	for name, content := range map[string]string{
		"plain": "x" + text + "y", "subject": "muster.ev.00.=2B15550100001", "percent": "?a=%2b%31%35%35%35%30%31%30%30%30%30%31",
		"base64 0": base64.StdEncoding.EncodeToString([]byte(text + "zz")), "base64 1": base64.StdEncoding.EncodeToString([]byte("x" + text)),
		"base64 2": base64.URLEncoding.EncodeToString([]byte("xx" + text + "zz")), "hex": hex.EncodeToString([]byte(text)),
		"zstd": "head" + string(z.EncodeAll([]byte("a "+text), nil)) + "tail", "gzip": "head" + zipped.String() + "tail", "s2": "head" + snappy.String() + "tail",
		"msgpack": "\x81\xa1a\xac" + text,
	} {
		if len(holds(name, []byte(content), []string{text})) == 0 {
			t.Errorf("%s: not found", name)
		}
	}
	if found := holds("", []byte("+15550100002 and nothing else"), []string{text}); len(found) != 0 {
		t.Errorf("found %q where nothing is", found)
	}
}
