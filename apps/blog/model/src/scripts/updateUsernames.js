// Sets userUsername in every item of one user in the logical partition: posts, comments and likes.
// Items with the new name are skipped, so the procedure may be repeated at any time.
// Returns {updated, done}. If the time limit ends the run early, done is false and the caller runs
// the procedure again.
function updateUsernames(userId, username) {
  var collection = getContext().getCollection();
  var updated = 0;
  var outdated = {
    query: 'SELECT * FROM c WHERE c.userId = @userId ' +
      'AND (NOT IS_DEFINED(c.userUsername) OR c.userUsername != @username)',
    parameters: [{ name: '@userId', value: userId }, { name: '@username', value: username }]
  };

  function finish(done) {
    getContext().getResponse().setBody({ updated: updated, done: done });
  }

  function nextPage() {
    var self = collection.getSelfLink();
    var options = { pageSize: 100 };
    var accepted = collection.queryDocuments(self, outdated, options, function (err, items) {
      if (err) throw err;
      if (items.length === 0) return finish(true);
      rewrite(items, 0);
    });
    if (!accepted) finish(false);
  }

  function rewrite(items, index) {
    if (index === items.length) return nextPage();
    var item = items[index];
    item.userUsername = username;
    var options = { etag: item._etag };
    var accepted = collection.replaceDocument(item._self, item, options, function (err) {
      if (err) throw err;
      updated++;
      rewrite(items, index + 1);
    });
    if (!accepted) finish(false);
  }

  nextPage();
}
