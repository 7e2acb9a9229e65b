// Stores a reading, and keeps the newest reading of each metric of the device in the item `latest`.
// Both writes are one transaction in the device's logical partition: if the reading's id is taken,
// the state does not change either. Readings may arrive in any order; an older one is stored and
// leaves the state as it is. Returns the state.
function SetLatestStateAcrossReadings(reading) {
  var collection = getContext().getCollection();
  var self = collection.getSelfLink();

  checkAccepted(collection.readDocument(collection.getAltLink() + '/docs/latest', function (err, state) {
    if (err && err.number !== 404) throw err;
    if (err) state = { id: 'latest', deviceId: reading.deviceId, readings: 0, metrics: {} };
    state.readings += 1;
    var known = state.metrics[reading.metricType];
    if (!known || known.readingTime < reading.readingTime) {
      state.metrics[reading.metricType] = {
        value: reading.metricValue,
        unit: reading.unit,
        readingTime: reading.readingTime,
        readingId: reading.id
      };
    }
    storeState(state);
  }));

  function storeState(state) {
    // The condition on the etag is checked at the end of the transaction as well.
    var options = state._etag ? { etag: state._etag } : {};
    checkAccepted(collection.upsertDocument(self, state, options, function (err, stored) {
      if (err) throw err;
      storeReading(stored);
    }));
  }

  function storeReading(state) {
    checkAccepted(collection.createDocument(self, reading, function (err) {
      if (err) throw err;
      getContext().getResponse().setBody(state);
    }));
  }

  // A call is not accepted if the time of the procedure is nearly over.
  function checkAccepted(accepted) {
    if (!accepted) throw new Error('the procedure ran out of time; nothing was changed');
  }
}
