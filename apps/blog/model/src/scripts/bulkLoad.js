// Creates many items of one logical partition in one transaction.
// Returns the number of items created. If the time limit ends the run early, the caller passes the
// remaining items to another run.
function bulkLoad(items) {
  var collection = getContext().getCollection();
  var self = collection.getSelfLink();
  var created = 0;

  function finish() {
    getContext().getResponse().setBody(created);
  }

  function next() {
    if (created === items.length) return finish();
    var accepted = collection.createDocument(self, items[created], function (err) {
      if (err) throw err;
      created++;
      next();
    });
    if (!accepted) finish();
  }

  next();
}
