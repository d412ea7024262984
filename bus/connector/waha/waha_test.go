package waha_test

import (
	"testing"

	"github.com/musterhq/muster/bus/connector/connectortest"
	"github.com/musterhq/muster/bus/connector/waha"
)

func TestRecordedSequences(t *testing.T) {
	connectortest.Play(t, waha.New(), "../connectortest/testdata/waha")
}
