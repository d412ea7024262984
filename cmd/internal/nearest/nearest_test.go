package nearest

import "testing"

func TestTo(t *testing.T) {
	names := []string{"qr_received", "qr_scanned", "connection_lost", "start", "stop", "data", "http"}
	for word, want := range map[string]string{
		"qr_recieved":    "qr_received",
		"QR_SCANNED":     "qr_scanned",
		"conection_lost": "connection_lost",
		"strat":          "start",
		"stpo":           "stop",
		"dta":            "data",
		"explode":        "",
		"":               "",
		"zz":             "",
	} {
		if got := To(word, names); got != want {
			t.Errorf("To(%q) = %q, want %q", word, got, want)
		}
	}
}
