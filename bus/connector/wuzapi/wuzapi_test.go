package wuzapi_test

import (
	"testing"

	"github.com/musterhq/muster/bus/connector/connectortest"
	"github.com/musterhq/muster/bus/connector/wuzapi"
)

func TestRecordedSequences(t *testing.T) {
	connectortest.Play(t, wuzapi.New(), "../connectortest/testdata/wuzapi")
}
